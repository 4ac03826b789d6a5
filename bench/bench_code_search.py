"""Measure how well search finds code. The queries are pieces of real coding sessions, and should find the message they come from.

    make bench-code-search

There are six kinds: identifiers, parts of identifiers, paths, file names, error texts, commands. A piece of a message is used as
a query only if at most three messages of the session contain it. Otherwise many messages would be right.
"""

import argparse
import asyncio
import json
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_retrieval import DATA, read
from memolog import Memory, NewMessage, TextPart, ToolCallPart, ToolResultPart
from memolog.core.message import Part, ReasoningPart
from memolog.search.analysis import text_of_parts
from table import table

MOST = 3
DEPTH = 5
A_KIND = 70
PATTERNS = {
    "identifier": re.compile(r"\b(?:[a-z]+[A-Z]\w{4,40}|[A-Z][a-z]+[A-Z]\w{3,40}|[a-z]+_[a-z]\w{3,40})\b"),
    "path": re.compile(r"\b(?:[\w.-]+/){1,5}[\w-]+\.[a-z]{1,4}\b"),
    "error": re.compile(r"\b\w*(?:Error|Exception|error|failed|FAILED)\b:? [^\n\"\\]{15,80}"),
    "command": re.compile(
        r"(?:^|\n|\")((?:git|npm|npx|cd|grep|python3?|pytest|cargo|make|uv|ls|cat|sed|gh|curl) [^\n\"\\]{8,60})"
    ),
}


def messages_of(session: dict[str, Any]) -> Iterator[NewMessage]:
    """Yield the messages of a session as messages of Memolog."""
    for number, message in enumerate(session["messages"]):
        parts: list[Part] = []
        if message.get("reasoning"):
            parts.append(ReasoningPart(text=str(message["reasoning"])))
        if message["role"] == "tool":
            call = str(message.get("tool_call_id") or f"c{number}")
            parts.append(ToolResultPart(call_id=call, content=message.get("content")))
        elif message.get("content"):
            content = message["content"]
            parts.append(TextPart(text=content if isinstance(content, str) else json.dumps(content)))
        if call := message.get("tool_call"):
            parts.append(ToolCallPart(id=str(call["id"]), name=str(call["name"]), arguments=call.get("arguments")))
        role = message["role"] if message["role"] in ("user", "assistant", "tool", "system") else "user"
        yield NewMessage(role=role, parts=tuple(parts), id=str(number))


def queries_of(texts: Sequence[str], chance: random.Random) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield the kind of a query, the query, and the numbers of the messages that contain it."""
    found: set[tuple[str, str]] = set()
    for text in texts:
        for kind, pattern in PATTERNS.items():
            for hit in pattern.finditer(text):
                found.add((kind, hit[1] if pattern.groups else hit[0]))
    for kind, query in sorted(found):
        yield kind, query, holders(texts, query)
        if kind == "path":
            name = query.rsplit("/", 1)[1]
            yield "file name", name, holders(texts, name)
        if kind == "identifier":
            parts = [part for part in re.findall(r"[A-Z]?[a-z]+", query) if len(part) > 4]
            if parts:
                part = chance.choice(parts)
                yield "part", part, holders(texts, part)


def holders(texts: Sequence[str], piece: str) -> frozenset[str]:
    """Return the numbers of the messages that contain a piece, in upper or lower case."""
    return frozenset(str(number) for number, text in enumerate(texts) if piece.lower() in text.lower())


async def measure(folder: Path) -> dict[str, list[bool]]:
    """Return for each kind, and for each of its queries, whether one of the right messages is among the first five results."""
    sessions, chance = read(folder, "coding_sessions_dev"), random.Random(3)
    asked: dict[str, list[tuple[str, str, frozenset[str]]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        async with Memory(str(Path(temporary) / "code.db")) as memory:
            kit = await memory.open()
            for number, session in enumerate(sessions):
                messages = list(messages_of(session))
                await kit.store.messages.save(f"r{number}", "t", messages)
                await memory.resource(f"r{number}").index()
                texts = [text_of_parts(message.parts) for message in messages]
                for kind, query, gold in queries_of(texts, chance):
                    if 0 < len(gold) <= MOST:
                        asked.setdefault(kind, []).append((f"r{number}", query, gold))
            results: dict[str, list[bool]] = {}
            for kind, cases in sorted(asked.items()):
                for resource, query, gold in chance.sample(cases, min(A_KIND, len(cases))):
                    answer = await memory.resource(resource).search(query, limit=DEPTH)
                    good = any(result.id in gold for result in answer.results)
                    results.setdefault(kind, []).append(good)
    return results


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="How well search finds code.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the sets")
    results = asyncio.run(measure(parser.parse_args().data))
    every = [good for found in results.values() for good in found]
    lines = [[kind, len(found), f"{100 * sum(found) / len(found):.1f}"] for kind, found in results.items()]
    print(
        table(
            ["kind", "queries", "found at rank 5 or better, %"],
            [*lines, ["all", len(every), f"{100 * sum(every) / len(every):.1f}"]],
        )
    )
    print(json.dumps({"queries": len(every), "found@5": round(sum(every) / len(every), 4)}))


if __name__ == "__main__":
    main()
