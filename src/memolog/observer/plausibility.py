"""Compare a reply of a model with its prompt and with the messages.

The functions drop lines and hints that only repeat the prompt or the log, and find statements of users that no line covers.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from math import ceil
from sys import intern
from typing import Final

from memolog.core.cache import remembered
from memolog.core.message import Message
from memolog.core.observation import KEPT
from memolog.observer.drafts import Draft, Faults, HintsDraft, Parsed, selected
from memolog.observer.evidence import Evidence, evidence_in, is_english, joined, source_text, support
from memolog.observer.extractive.observer import observing
from memolog.observer.judge import line_text
from memolog.observer.prompt import ObserveInput, Prompt
from memolog.observer.transcript import Shown, said_in_zone
from memolog.text.identifiers import content_words, dotted_words, folded, squeezed
from memolog.text.tokens import TokenCounter

# An answer may have at most this many times the tokens of its messages. It may always have _LEAST_ROOM tokens.
_MOST_TIMES: Final = 20
_LEAST_ROOM: Final = 300
# A line or a hint with at least this many words, which occur side by side in the instructions, is a copy.
_LINE_WORDS: Final = 4
_HINT_WORDS: Final = 3
_MOST_ECHOED: Final = 0.5  # a reply with a larger share of copied rows is an echo of the prompt
_LEAST_SUPPORT: Final = 0.34  # minimum share of words from the messages in a line without citations
_SUPPORTED: Final = 0.5  # a line with at least this share of words from the messages is supported
_FEW_WORDS: Final = 2
# Statements that share no word with the messages are accepted only if there are at most this many for each line that shares one.
_MOST_DOUBTFUL: Final = 2
# The number of cached system prompts, and of lines of the log and of replies whose words are cached.
_FEW_PROMPTS: Final = 4
_REMEMBERED: Final = 512
_ALIKE: Final = 0.8  # two lines with at least this share of common words are the same
# Elements of a prompt that contain data and not instructions.
_GIVEN: Final = re.compile(r"<(log-end|hints|transcript|working-memory|wanted|attached)\b[^<>\n]{0,100}>(?=\n)")
_HINTS: Final = re.compile(r"<(current-task|suggested-response|thread-title)>")
_FENCED: Final = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.DOTALL | re.MULTILINE)
_VERBATIM: Final = re.compile(r"\s*[|>│]")
_MARKED: Final = re.compile(r"\s*[*•-] ")
_TRANSCRIPT: Final = re.compile(r"<(transcript)>(?=\n)")
_HEADER: Final = re.compile(r"<message>\[\d+\] \d\d:\d\d \w+")
# Markup around messages in a transcript, and unfilled placeholders of the format.
_SHELL: Final = re.compile(r"</?message>|\A\W*(?:<[^<>\n]{1,100}>|\{[^{}\n]{1,100}\})\W*\Z")
_MEANING: Final = re.compile(r"[ ]?\(meaning [^()\n]{1,60}\)", re.IGNORECASE)


def _elements(text: str, opening: re.Pattern[str]) -> Iterator[tuple[range, str]]:
    """Yield the range and the content of each element with such an opening tag. Tags that are never closed are skipped."""
    at, unclosed = 0, set[str]()
    for tag in opening.finditer(text):
        name = tag[1]
        if tag.start() < at or name in unclosed:
            continue
        end = text.find(f"</{name}>", tag.end())
        if end < 0:
            # Later opening tags of this name have no closing tag either, so they are skipped.
            unclosed.add(name)
            continue
        at = end + len(f"</{name}>")
        yield range(tag.start(), at), text[tag.end() : end]


def _without(text: str, opening: re.Pattern[str]) -> str:
    kept: list[str] = []
    at = 0
    for place, _ in _elements(text, opening):
        kept.append(text[at : place.start])
        at = place.stop
    return "".join([*kept, text[at:]])


def checking(
    parsed: Parsed, reply: str, given: ObserveInput, prompt: Prompt, counter: TokenCounter
) -> Generator[None, None, Parsed]:
    """Return the usable lines and hints of a reply, with a fault for each kind of text that was dropped. Yield after each line.

    A reply without usable lines is a failure, unless the log already contains all of its lines.
    """
    faults = Faults(parsed.faults)
    if faults.has_fatal:
        return parsed
    said = joined(map(source_text, given.messages))
    yield
    echoes = _Echoes(prompt, said)
    hints = _checked_hints(parsed.hints, given, echoes, faults)
    if parsed.nothing:
        return replace(parsed, hints=hints, faults=faults)
    yield
    if echoes.are_most_of(reply):
        faults.note("echo", reply)
        faults.note("empty", "the reply repeats the prompt")
        return Parsed(faults=faults)
    size = sum(counter.count(line_text(draft)) for draft in parsed.observations)
    span = sum(message.tokens or counter.count(source_text(message)) for message in given.messages)
    if size > max(_MOST_TIMES * span, _LEAST_ROOM):
        faults.note("too_large", f"over {_MOST_TIMES} times as long as the messages")
        return Parsed(faults=faults)
    kept, known = yield from _checking_lines(parsed, given, prompt, echoes, said, faults)
    if parsed.observations and not kept and not known:
        faults.note("empty", "the reply contains nothing new about these messages")
    nothing = bool(known) and not kept
    return Parsed(observations=kept, hints=hints, faults=faults, nothing=nothing, known=known)


def _checking_lines(
    parsed: Parsed, given: ObserveInput, prompt: Prompt, echoes: "_Echoes", said: Evidence, faults: Faults
) -> Generator[None, None, tuple[tuple[Draft, ...], tuple[Draft, ...]]]:
    """Return the usable lines, and the lines that the log already has from the same day.

    A statement with citations that shares no word with the messages may be a paraphrase. It is usable if enough other lines
    share words with the messages. `judge` marks it later.
    """
    numbered = dict(_numbered(given, prompt.shown))
    days = yield from _days_by_line(parsed, given)
    is_said: list[bool] = []
    for draft, found in zip(parsed.observations, days, strict=True):
        is_said.append(bool(found) and _is_said_again(draft, _cited(draft, numbered) or said))
        yield
    # A line with fewer than two content words counts as a copy only if the reply copies a longer line too.
    is_long = [len(content_words(draft.text)) >= _FEW_WORDS for draft in parsed.observations]
    copies = any(long and found and not again for long, found, again in zip(is_long, days, is_said, strict=True))
    kept: list[int] = []
    doubtful: list[int] = []
    known: list[Draft] = []
    shares: list[float] = []
    for place, draft in enumerate(parsed.observations):
        yield
        shares.append(support(draft.text, said))
        # Most lines have support, and the words of the prompt are read only for the others.
        is_echo = shares[place] < _SUPPORTED and echoes.has(draft.text, _LINE_WORDS)
        if is_echo or echoes.is_shell(draft.text):
            faults.note("echo", draft.text)
        elif _is_unfounded(draft, shares[place], said):
            if draft.cites and not days[place]:
                doubtful.append(place)
            else:
                faults.note("copied" if days[place] else "unfounded", draft.text)
        elif not (found := days[place]) or not (copies or is_long[place]):
            kept.append(place)
        elif not is_said[place]:
            faults.note("copied", draft.text)
        elif draft.said_at.date() in found or None in found:
            known.append(draft)
            faults.note("copied", draft.text)
        else:
            # The user made the same statement again on another day.
            kept.append(place)
    if doubtful:
        kept = _with_doubtful(kept, doubtful, parsed.observations, shares, faults)
    return selected(parsed.observations, kept), tuple(known)


def _with_doubtful(
    kept: Sequence[int], doubtful: Sequence[int], drafts: Sequence[Draft], shares: Sequence[float], faults: Faults
) -> list[int]:
    """Return the places of the usable lines with the doubtful ones, or without them if too few lines have support.

    `shares` has for each line the share of its words that the messages contain.
    """
    supported = sum(shares[place] > 0 for place in kept)
    if len(doubtful) <= _MOST_DOUBTFUL * supported:
        return sorted((*kept, *doubtful))
    for place in doubtful:
        faults.note("unfounded", drafts[place].text)
    return list(kept)


def _cited(draft: Draft, numbered: Mapping[int | None, Message]) -> Evidence | None:
    texts = [source_text(numbered[number]) for number in draft.cites if number in numbered]
    return Evidence("\n".join(texts)) if texts else None


def _is_unfounded(draft: Draft, share: float, said: Evidence) -> bool:
    """Return whether the messages do not support a line. They contain this share of its words.

    A line without citations must share a third of its words with the messages. A 🔴 or ✅ line with citations must share one
    word, unless it has verbatim text or is in another language than the messages.
    """
    if not draft.cites:
        return share < _LEAST_SUPPORT
    is_statement = draft.priority in KEPT and not draft.verbatim
    return is_statement and not share and not _are_in_other_languages(draft.text, said.literal)


def _is_said_again(draft: Draft, evidence: Evidence) -> bool:
    """Return whether the cited messages support a line that is in the log already."""
    words, share = content_words(draft.text), support(draft.text, evidence)
    # One shared word may be chance, unless the line contains at least half of the words of the messages.
    is_more = share * len(words) >= _FEW_WORDS or support(evidence.literal, Evidence(draft.text)) >= _SUPPORTED
    return share >= _SUPPORTED and is_more and _words_of(draft.text)[1] <= evidence.words


def _checked_hints(hints: HintsDraft, given: ObserveInput, echoes: "_Echoes", faults: Faults) -> HintsDraft:
    earlier = {given.hints.current_task, given.hints.suggested_response, given.hints.title}
    for name in ("current_task", "suggested_response", "title"):
        text: str | None = getattr(hints, name)
        if text and text not in earlier and echoes.has(text, _HINT_WORDS):
            faults.note("echo", text)
            hints = replace(hints, **{name: None})
    return hints


class _Instructions:
    """A text that Memolog wrote for the observer, and its rows."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def dotted_words(self) -> str:
        return Evidence(self._text).dotted_words

    @cached_property
    def rows(self) -> frozenset[str]:
        return frozenset(map(_row, self._text.split("\n")))


_instructions = remembered(_FEW_PROMPTS)(_Instructions)


@remembered(_FEW_PROMPTS)
def _instructions_in(prompt: str) -> _Instructions:
    """Return the instructions between the data of a prompt. The prompt of a batch is the same for all of its conversations."""
    return _Instructions(_without(prompt, _GIVEN))


class _Echoes:
    """Finds parts of a reply that repeat the instructions of the prompt."""

    def __init__(self, prompt: Prompt, said: Evidence) -> None:
        self._said, self._prompt = said, prompt
        # The system prompt is the same for many replies.
        self._ours = (_instructions(prompt.system), _instructions_in(prompt.text))

    @cached_property
    def _shown(self) -> frozenset[str]:
        texts = (inside for _, inside in _elements(self._prompt.text, _TRANSCRIPT))
        return frozenset(_row(line) for inside in texts for line in inside.split("\n"))

    def has(self, text: str, least: int) -> bool:
        needle = dotted_words(text)
        words = needle.strip(".").split(".")
        # Few texts are looked up here, so the set of all words of a prompt would be made for nothing.
        if len(words) < least or not any(needle in ours.dotted_words for ours in self._ours):
            return False
        return not self._said.has(needle)

    def is_shell(self, text: str) -> bool:
        """Return whether a line has markup of the transcript or is an unfilled placeholder, and does not occur in a message."""
        plain = folded(text)
        if "<" not in plain and "{" not in plain:
            return False
        return _SHELL.search(plain) is not None and not self._said.has(squeezed(plain))

    def are_most_of(self, reply: str) -> bool:
        """Return whether most rows of a reply are copied from the instructions or the transcript.

        Observations may quote messages, so a row with a bullet is compared with the instructions only. A reply with several
        message headers of the transcript is always an echo.
        """
        if len(_HEADER.findall(reply)) > _FEW_WORDS:
            return True
        # `_checked_hints` checks the hints.
        plain = _FENCED.sub("", _without(reply, _HINTS)).split("\n")
        rows = [(row, _MARKED.match(raw)) for raw in plain if (row := _row(raw)) and not _VERBATIM.match(raw)]
        echoed = sum(
            any(row in ours.rows for ours in self._ours) or (not is_line and row in self._shown)
            for row, is_line in rows
        )
        return len(rows) > 1 and echoed > _MOST_ECHOED * len(rows)


def _row(text: str) -> str:
    """Return a row of text folded for comparison; empty if it has fewer than four words that are not numbers."""
    words = squeezed(folded(text)).strip(".").split(".")
    return ".".join(words) if sum(not word.isdigit() for word in words) >= _LINE_WORDS else ""


# ---------------------------------------------------------------- the log


@remembered(_REMEMBERED)
def _words_of(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return all words of a line, and its words with digits."""
    # The same words are in many cached lines, so each is kept once.
    bare = folded(_MEANING.sub("", text) if "(" in text else text)
    words = frozenset(map(intern, squeezed(bare).strip(".").split("."))) - {""}
    return words, frozenset(word for word in words if not word.isalpha() and any(map(str.isdigit, word)))


def _days_by_line(parsed: Parsed, given: ObserveInput) -> Generator[None, None, list[frozenset[date | None]]]:
    """Return for each line of a reply the days on which the log has nearly the same line with the same numbers."""
    drafts: list[tuple[frozenset[str], frozenset[str]]] = []
    by_word: dict[str, list[int]] = {}
    for place, draft in enumerate(parsed.observations):
        drafts.append(_words_of(draft.text))
        words, _ = drafts[-1]
        # If a line of the log is alike, it has at least one of so many words of this line. Long words are in few lines.
        for word in sorted(words, key=len, reverse=True)[: len(words) - ceil(_ALIKE * len(words)) + 1] or ("",):
            by_word.setdefault(word, []).append(place)
        yield
    telling = frozenset(by_word)
    days: list[set[date | None]] = [set() for _ in drafts]
    for line in given.lines:
        yield
        if line.state != "active":
            continue
        others, of_line = _words_of(line.text)
        # The empty word stands for a line without words.
        for place in {place for word in telling & (others or {""}) for place in by_word[word]}:
            words, numbers = drafts[place]
            if of_line != numbers:
                continue
            common = len(words & others)
            if common >= _ALIKE * (len(words) + len(others) - common):
                said = said_in_zone(line, given.zone)
                days[place].add(said and said.date())
    return [frozenset(found) for found in days]


# ---------------------------------------------------------------- covered statements


def _numbered(given: ObserveInput, shown: Sequence[Shown]) -> list[tuple[int | None, Message]]:
    """Return the live messages of a span, each with its number in the transcript (None if it was not shown)."""
    # The slices of a long message have the same `seq` and different numbers.
    unused: dict[tuple[str, int], list[int]] = {}
    for one in reversed(shown):
        unused.setdefault((one.thread, one.seq), []).append(one.number)
    live = (message for message in given.messages if message.state == "live")
    found = ((unused.get((message.thread, message.seq)), message) for message in live)
    return [(numbers.pop() if numbers else None, message) for numbers, message in found]


def finding_uncovered(
    parsed: Parsed, given: ObserveInput, shown: Sequence[Shown]
) -> Generator[None, None, tuple[Message, ...]]:
    """Return the messages with a statement of a user that no line covers. Yield after each message.

    A line with citations covers a cited message if the two share a word or a number, or if lines and messages are in different
    languages. A line without citations covers a message if it contains at least half of the words of the message.
    """
    cited: dict[int, list[Draft]] = {}
    lines = (*parsed.observations, *parsed.known)
    loose = [Evidence(line_text(draft)) for draft in lines if not draft.cites]
    for draft in lines:
        for number in draft.cites:
            cited.setdefault(number, []).append(draft)

    def is_covered(number: int | None, text: str) -> bool:
        said, own = evidence_in(text), map(line_text, cited.get(number or 0, ()))
        if any(_words_of(line)[1] & said.words or support(line, said) > 0 for line in own):
            return True
        return any(support(text, line) >= _SUPPORTED for line in loose)

    doubtful: list[tuple[int | None, Message]] = []
    for number, message in _numbered(given, shown):
        if message.role == "user" and not is_covered(number, source_text(message)):
            doubtful.append((number, message))
        yield
    # Most replies cover every message, and finding the statements takes much longer.
    stated = (yield from _stating(given)) if doubtful else ()
    if not stated:
        return ()
    is_foreign = _are_in_other_languages("\n".join(map(line_text, lines)), "\n".join(map(source_text, stated)))
    return tuple(
        message for number, message in doubtful if message in stated and not (is_foreign and cited.get(number or 0))
    )


def _are_in_other_languages(lines: str, said: str) -> bool:
    """Return whether exactly one of two texts is English, so that their words cannot be compared."""
    return {is_english(Evidence(lines)), is_english(Evidence(said))} == {True, False}


def _stating(given: ObserveInput) -> Generator[None, None, list[Message]]:
    """Return the messages of users in which the embedded observer finds a statement."""
    live = [message for message in given.messages if message.state == "live"]
    if not any(message.role == "user" for message in live):
        return []
    found = yield from observing(replace(given, messages=tuple(live), wanted=()))
    numbers = {number for draft in found.observations if draft.priority == "high" for number in draft.cites}
    texts = ((message, source_text(message)) for message in (live[number - 1] for number in sorted(numbers)))
    return [
        message
        for message, text in texts
        if message.role == "user" and (len(content_words(text)) >= _FEW_WORDS or any(map(str.isdigit, text)))
    ]


def in_order(drafts: Sequence[Draft]) -> tuple[Draft, ...]:
    """Return the lines sorted by time. A line stays together with the lines under it."""
    trees: dict[int, list[int]] = {}
    for place in range(len(drafts)):
        root, above = place, drafts[place].parent
        while above is not None:
            root, above = above, drafts[above].parent
        trees.setdefault(root, []).append(place)
    ordered = sorted(trees, key=lambda root: drafts[root].said_at)
    return selected(drafts, [place for root in ordered for place in trees[root]])
