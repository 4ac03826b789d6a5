"""What the demo came to: as one JSON document, and as lines for people.

Knows the figures. Where they come from is in the parts that measured them.
"""

import shlex
import shutil
import sys
from pathlib import Path

from memolog.apps.demo.play import Demo
from memolog.apps.demo.screen import Screen
from memolog.apps.demo.script import script
from memolog.apps.demo.tally import CACHED_PRICE, PRICE
from memolog.store.postgres_address import safe_url

__all__ = ["commands", "show", "summary", "went_well"]


def summary(demo: Demo) -> dict[str, object]:
    """Return what happened, as JSON values."""
    exchanges, happened, tally, proof = script(), demo.narrator.happened, demo.played.tally, demo.proof
    said = demo.played.said
    with_memory, without = tally.with_memory, tally.without
    killed = demo.killed
    return {
        "database": safe_url(demo.address),
        "messages": sum(map(len, said.values())),
        "tool_calls": sum(message.role == "tool" for messages in said.values() for message in messages),
        "days": len({exchange.at.date() for exchange in exchanges}),
        "threads": len(said),
        "requests": tally.requests,
        "background_runs": happened.observed,
        "lines": happened.lines,
        "activations": happened.activations,
        "reflections": [{"before": before, "after": after} for before, after in happened.reflections],
        "crash": {
            "exit_code": killed.exit_code if killed else None,
            "saved_before": len(killed.saved) if killed else 0,
            "there_after": demo.survived,
            "recovered": killed is not None and killed.run in happened.recovered,
        },
        "question": demo.shown.question,
        "exact_code": demo.shown.code,
        "task": demo.shown.task,
        "tokens": {
            "without_memory": without.sent,
            "with_memory": with_memory.sent,
            "saved": round(1 - with_memory.sent / max(1, without.sent), 3),
            "longest_request": {"without_memory": tally.largest[0], "with_memory": tally.largest[1]},
        },
        "prompt_cache_reuse": round(with_memory.reused / max(1, with_memory.sent), 3),
        "prompt_cache_reuse_warm": round(with_memory.reused / max(1, tally.warm_sent), 3),
        "cost": {
            "without_memory": round(without.cost, 4),
            "with_memory": round(with_memory.cost, 4),
            "price_per_million": PRICE,
            "cached_price_per_million": CACHED_PRICE,
        },
        "word_for_word": proof.word_for_word if proof else 0,
        "in_prompt": proof.in_prompt if proof else 0,
        "behind_log": proof.behind_log if proof else 0,
        "nothing_lost": proof is not None and proof.holds,
        "next": commands(demo.address),
    }


def went_well(demo: Demo) -> bool:
    """Tell whether the demo showed what it promises."""
    happened, shown, killed, proof = demo.narrator.happened, demo.shown, demo.killed, demo.proof
    is_recovered = killed is not None and killed.run in happened.recovered and demo.survived == len(killed.saved)
    is_answered = shown.question.get("answered_from_log") and not shown.question.get("in_recent_messages")
    is_closed = shown.task.get("status") == "closed" and shown.task.get("citations")
    is_whole = proof is not None and proof.holds
    return bool(
        happened.reflections and is_recovered and is_answered and shown.code.get("exact") and is_closed and is_whole
    )


def commands(address: str) -> list[str]:
    """Return what to try next, as it can be typed here; a password is left to whoever types it."""
    program, place = _program(), shlex.quote(safe_url(address))
    return [
        f"{program} log --thread api --db {place}",
        f'{program} search "late fee" --db {place}',
        f"{program} context --thread api --db {place}",
    ]


def _program() -> str:
    """Return how the command line is called: by its name, or by its place where the shell does not find it."""
    beside = Path(sys.executable).parent / "memolog"
    if shutil.which("memolog") or not beside.exists():
        return "memolog"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def show(demo: Demo, screen: Screen) -> None:
    """Show the figures, and what to try next."""
    tally, happened, proof = demo.played.tally, demo.narrator.happened, demo.proof
    sent, whole = tally.with_memory, tally.without
    less = 1 - sent.sent / max(1, whole.sent)
    reuse, warm = sent.reused / max(1, sent.sent), sent.reused / max(1, tally.warm_sent)
    screen.line()
    screen.line(("What it came to", "title"))
    rows = (
        ("memory", f"{happened.lines} lines written, {happened.activations} times into the log,"),
        ("", f"condensed {len(happened.reflections)} times, by the embedded observer, for nothing"),
        (
            "tokens",
            f"{whole.sent:,} without memory, {sent.sent:,} with it: {less:.0%} less in {tally.requests} requests",
        ),
        ("longest", f"the longest request: {tally.largest[0]:,} tokens without memory, {tally.largest[1]:,} with it"),
        ("cache", f"{reuse:.0%} of what was sent came from the prompt cache; {warm:.0%} where it was warm"),
        ("cost", f"${whole.cost:.2f} without memory, ${sent.cost:.2f} with it, at a sample price:"),
        ("", f"${PRICE:.2f} a million tokens, ${CACHED_PRICE:.2f} if they are cached"),
    )
    for name, text in rows:
        screen.line((f"  {name:<9}", "dim"), text)
    if proof:
        mark = "nothing lost" if proof.holds else "SOMETHING IS MISSING"
        screen.line(
            ("  checked  ", "dim"),
            (mark, "good" if proof.holds else "crash"),
            f": {proof.word_for_word} of {proof.said} messages are there word for word,",
        )
        screen.line("           ", f"{proof.in_prompt} in the prompts, {proof.behind_log} behind the lines of the logs")
    screen.line()
    screen.line(("The database is yours to explore:", "title"))
    for command in commands(demo.address):
        screen.line(f"  {command}")
