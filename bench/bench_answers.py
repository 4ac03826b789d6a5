"""Measure how many answers, list items and user statements the log of the embedded observer contains.

Every session is observed with the default settings, and then its log is condensed to half by a reflection. The text of the log is
judged line by line. The rules of this module are independent of the code of the observer. The data is not part of the project;
without it, the benchmark says so and ends. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from bench_retention import CHAT, STOP, Pipeline, bare, chat_messages, load, rounded
from table import table

ASKED: Final = frozenset({"single-session-user", "single-session-assistant", "knowledge-update"})
ENOUGH: Final = 0.8
LONGEST_LINE: Final = 500
LONGEST_LIST: Final = 800
MOST_ITEMS: Final = 10
NEAR: Final = 2
LEAST_ITEMS: Final = 3
LONGEST_HEAD: Final = 60
LEAST_HEAD: Final = 25
FEW_WORDS: Final = 3
SHORT_ITEM: Final = 6
"""Pieces of text are items of a list, not clauses, if their median length is at most this many words."""

# ---------------------------------------------------------------- words

WORD: Final = re.compile(r"[^\W_]+(?:[.,:/]\d+)*(?:['’][^\W\d_]+)?")
# Words before a list that name the speaker or announce the list, but not its subject.
EMPTY_LEADS: Final = (
    "also name mention list item user assistant say said ask answer note other thing follow include keep recommend suggest "
    "give option point etc"
)


def stem(word: str) -> str:
    """Return a word without the ending of a plural, a tense or a possessive."""
    word = re.sub(r"['’].*", "", word.lower()).replace(",", "")
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= FEW_WORDS and not word[-3:-1].isdigit():
            word = word[: -len(ending)]
            break
    if len(word) > FEW_WORDS and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if len(word) > FEW_WORDS and word[-1] in "ey" else word


def content(text: str) -> frozenset[str]:
    """Return the stems of the words of a text, without function words."""
    return frozenset(stem(word) for word in WORD.findall(text) if bare(word) not in STOP)


EMPTY: Final = frozenset(stem(word) for word in EMPTY_LEADS.split())


def covered(wanted: frozenset[str], there: frozenset[str]) -> bool:
    """Return whether enough of the wanted words are present."""
    return len(wanted & there) >= ENOUGH * len(wanted)


# ---------------------------------------------------------------- lines of a log


class Line(NamedTuple):
    """One line of a rendered log."""

    words: frozenset[str]
    topic: frozenset[str]
    """The subject of a list: the words before its colon. Empty if the line is not a list or names no subject."""
    is_list: bool


BULLET: Final = re.compile(r"\s*\* (?:[^\w\s(]+ )?(?:\((?:\d{4}-\d\d-\d\d )?\d\d:\d\d\) )?(.*)")
LEAD: Final = re.compile(r"(?:\A|[.;|] )([^;:|]{1,200}): (?=\S)")
NUMBERED: Final = re.compile(r"(?:\A|[;:,.] )\(?\d{1,3}[.)] ")


def without_speaker(text: str) -> str:
    """Return a line without the words that only name the speaker."""
    return re.sub(r"\A(?:->|(?:User|Assistant)(?: asked)?:) ", "", text)


def line_of(text: str) -> Line | None:
    """Return a line. None if the line is too long, or if it is a list that does not name its subject."""
    items = sorted(len(item.split()) for item in text.split("; "))
    # Pieces between semicolons are items if they are short, or if words before the first piece announce a list.
    is_led = bool(LEAD.search(without_speaker(text).split("; ")[0]))
    is_list = len(NUMBERED.findall(text)) >= LEAST_ITEMS or (
        len(items) >= LEAST_ITEMS and (is_led or items[len(items) // 2] <= SHORT_ITEM)
    )
    if len(text) > (LONGEST_LIST if is_list else LONGEST_LINE):
        return None
    topics: frozenset[str] = frozenset()
    names = re.split(r"[,;] ", text)
    few = [name for name in names if len(name.split()) <= FEW_WORDS]
    if is_list or (len(names) > LEAST_ITEMS and len(few) >= ENOUGH * len(names)):
        # A line may contain several lists, each with its own subject. The name of the speaker is not a subject.
        topics = content(" ".join(LEAD.findall(without_speaker(text)))) - EMPTY
        if not topics:
            return None
    return Line(content(text), topics, is_list)


def lines_of(log: str) -> list[Line | None]:
    """Return the lines of a rendered log in their order."""
    return [line_of(hit[1]) for row in log.split("\n") if (hit := BULLET.match(row))]


# ---------------------------------------------------------------- what is looked for


class Item(NamedTuple):
    """An item of an assistant's list: the words of its head, and the words of the list's subject."""

    head: frozenset[str]
    about: frozenset[str]


ITEM: Final = re.compile(r"([ \t]*)(?:\*\*)?(?:([-*•+])|(\d{1,3})[.)])\s+(\S.*)")
FENCE: Final = re.compile(r"\s*(?:```|~~~)")
BOLD: Final = re.compile(r"\*\*(.+?)\*\*")
HEAD_ENDS: Final = re.compile(r":(?=\s|\Z)| [-–—] |\. | \(")
CLAUSE: Final = re.compile(r", |; | (?:and|or|which|that|because|so|with|to|for|in|by|as) ")


def head_of(item: str) -> str:
    """Return the head of a list item: its bold beginning, or the text before the first colon, dash or full stop."""
    bold = BOLD.match(item.strip())
    text = bold[1] if bold else BOLD.sub(r"\1", item)
    text = re.sub(r"[*_`]|\[|\]\([^)]*\)", "", text).strip().rstrip(":")
    if not bold and (end := HEAD_ENDS.search(text)) and content(text[: end.start()]):
        text = text[: end.start()]
    if len(text) > LONGEST_HEAD:
        end = CLAUSE.search(text, LEAST_HEAD)
        text = text[: end.start()] if end and end.start() <= LONGEST_HEAD else text[:LONGEST_HEAD].rsplit(" ", 1)[0]
    return text


def lists_of(answer: str, question: str) -> Iterator[list[Item]]:
    """Yield the lists of an assistant's answer, each with at most ten items."""
    open_lists: dict[int, tuple[list[Item], str]] = {}
    above, in_code = "", False
    made: list[list[Item]] = []
    for row in answer.split("\n"):
        if FENCE.match(row):
            in_code = not in_code
        hit = ITEM.match(row)
        if in_code or not row.strip() or FENCE.match(row):
            continue
        if hit is None:
            if not row[:1].isspace():
                above = row
            continue
        indent, number = len(hit[1].expandtabs(4)), hit[3]
        for deeper in [depth for depth in open_lists if depth > indent]:
            del open_lists[deeper]
        if indent not in open_lists or (open_lists[indent][1] != above and number in {None, "1"}):
            open_lists[indent] = ([], above)
            made.append(open_lists[indent][0])
        items = open_lists[indent][0]
        head = content(head_of(hit[4]))
        parents = " ".join(open_lists[depth][1] for depth in open_lists)
        heads = {word for depth in open_lists if depth < indent for word in last_head(open_lists[depth][0])}
        about = content(f"{parents} {above} {question}") | heads
        if head and len(items) < MOST_ITEMS:
            items.append(Item(head, about))
    yield from made


def last_head(items: Sequence[Item]) -> frozenset[str]:
    """Return the head of the last item. It is the subject of a list below it."""
    return items[-1].head if items else frozenset()


SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"'”’)]*\s+")
SUBJECT: Final = re.compile(
    r"\b(?:I|[Ww]e)(?:['’](?:m|ve|d|ll|re))?\s+[^\W\d_]{2,}|\bi(?:['’](?:m|ve|d|ll))?\s+[a-z]{2,}"
)
OWN: Final = re.compile(
    r"\b(?:[Mm]y|[Oo]ur)\b.*\b(?:is|are|was|were|has|have|had|will|would|can|does|did|do|\w{2,}(?:ed|es))\b"
    r"|\b(?:is|are|was|were|has|have|had|\w{2,}ed)\b.*\b(?:my|our|me|us)\b"
)
OPENS: Final = re.compile(
    r"(?:And |But |So |Also, |By the way, |Actually, )?(?:I|I['’](?:m|ve|d|ll)|We|We['’]re|My|Our)\b"
)


def user_sentences(text: str) -> Iterator[frozenset[str]]:
    """Yield the words of each sentence in which a user speaks about themselves. Questions that begin as a statement count too.

    A sentence with fewer than two words of content, such as "I see.", states nothing.
    """
    for row in text.split("\n"):
        for sentence in SENTENCE_END.split(row):
            if not (SUBJECT.search(sentence) or OWN.search(sentence)):
                continue
            if sentence.rstrip("\"'”’) ").endswith("?") and not OPENS.match(sentence):
                continue
            if len(words := content(sentence)) >= 2:
                yield words


# ---------------------------------------------------------------- measuring

Session: TypeAlias = list[dict[str, Any]]


@dataclass
class Counts:
    """Hits and tries of each measure, and sizes."""

    hits: dict[str, list[bool]] = field(default_factory=dict[str, list[bool]])
    raw: int = 0
    log: int = 0
    reflected: int = 0

    def add(self, other: "Counts") -> None:
        """Add the counts of another value."""
        for name, values in other.hits.items():
            self.hits.setdefault(name, []).extend(values)
        self.raw, self.log, self.reflected = (
            self.raw + other.raw,
            self.log + other.log,
            self.reflected + other.reflected,
        )

    def figures(self) -> dict[str, float]:
        """Return the measures in percent and the ratios."""
        found = {name: 100 * sum(values) / len(values) for name, values in sorted(self.hits.items()) if values}
        return {**found, "ratio": self.raw / max(self.log, 1), "ratio_reflected": self.raw / max(self.reflected, 1)}


def session_counts(session: Session, log: str, reflected: str) -> Counts:
    """Return how many list items and user statements of a session its logs contain."""
    counts = Counts(raw=sum(len(turn["content"]) for turn in session), log=len(log), reflected=len(reflected))
    question, items, sentences = "", list[Item](), list[frozenset[str]]()
    for turn in session:
        if turn["role"] == "user":
            question = turn["content"]
            sentences += user_sentences(question)
        else:
            items += [item for found in lists_of(turn["content"], question) for item in found]
    for name, text in (("log", log), ("reflected", reflected)):
        lines = [line for line in lines_of(text) if line]
        counts.hits[f"list_heads.{name}"] = [any(keeps(line, item) for line in lines) for item in items]
        counts.hits[f"user_sentences.{name}"] = [any(covered(one, line.words) for line in lines) for one in sentences]
    return counts


def keeps(line: Line, item: Item) -> bool:
    """Return whether a line contains the head of a list item. If the line is a list, it must also name the subject."""
    return covered(item.head, line.words) and (not line.is_list or bool(line.topic & item.about))


def answered(question: dict[str, Any], logs: Iterable[str]) -> bool | None:
    """Return whether a line of the logs answers a question. None if the sessions do not contain the words of the answer."""
    said = content("\n".join(turn["content"] for session in question["haystack_sessions"] for turn in session))
    wanted, about = content(str(question["answer"])) & said, content(question["question"])
    if not wanted:
        return None
    for log in logs:
        lines = lines_of(log)
        for place, line in enumerate(lines):
            if line and covered(wanted, line.words):
                near = lines[max(0, place - NEAR) : place + NEAR + 1]
                if any(other and other.words & about for other in near):
                    return True
    return False


Logs: TypeAlias = dict[str, tuple[Session, str, str]]


async def observed(questions: Sequence[dict[str, Any]], tell: Callable[[str], None]) -> Logs:
    """Return each session with its log and its condensed log, by the id of the session."""
    sessions = {
        name: (session, when)
        for question in questions
        for name, session, when in zip(
            question["haystack_session_ids"], question["haystack_sessions"], question["haystack_dates"], strict=True
        )
    }
    logs: Logs = {}
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(Path(folder) / "answers.db")
        try:
            for number, (name, (session, when)) in enumerate(sessions.items(), 1):
                kept = await pipeline.keep(chat_messages(session, when), "answers", name)
                logs[name] = (session, kept.text, kept.reflected)
                if number % 100 == 0:
                    tell(f"{number} of {len(sessions)} sessions observed and condensed")
        finally:
            await pipeline.aclose()
    tell(f"{len(sessions)} sessions observed and condensed")
    return logs


def measured(questions: Sequence[dict[str, Any]], logs: Logs) -> Counts:
    """Return all measures for these questions and their sessions."""
    total = Counts()
    names = dict.fromkeys(name for question in questions for name in question["haystack_session_ids"])
    for name in names:
        total.add(session_counts(*logs[name]))
    for question in questions:
        if question["question_type"] not in ASKED or question["question_id"].endswith("_abs"):
            continue
        shown = [logs[name][1:] for name in question["haystack_session_ids"]]
        for kind, texts in zip(("answers.log", "answers.reflected"), zip(*shown, strict=True), strict=True):
            found = answered(question, texts)
            if found is not None:
                total.hits.setdefault(kind, []).append(found)
                total.hits.setdefault(f"{kind} ({question['question_type']})", []).append(found)
    return total


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table for people and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).resolve().parents[1]
    parser.add_argument(
        "--data", type=Path, default=here.parent / "shared" / "data" / CHAT, help="the file, or its folder"
    )
    parser.add_argument("--questions", type=int, default=0, help="the number of questions, chosen at random; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of the two random halves of the questions")
    given = parser.parse_args(arguments)
    path = given.data / CHAT if given.data.is_dir() else given.data
    if not path.is_file():
        print(f"The data is not there: {path}. Name the file with --data; nothing was measured.")
        print(json.dumps({"skipped": f"no {path.name}"}))
        return
    questions = load(path)
    random.Random(given.seed).shuffle(questions)
    questions = questions[: given.questions or None]
    logs = asyncio.run(observed(questions, lambda text: print(text, flush=True)))
    middle = len(questions) // 2
    parts = [measured(part, logs) for part in (questions, questions[:middle], questions[middle:])]
    columns = [part.figures() for part in parts]
    count = {name: len(values) for name, values in parts[0].hits.items()}
    rows = [(name, *(column.get(name) for column in columns), count.get(name)) for name in columns[0]]
    print(table(["measure", "all", "one half", "other half", "of"], rows))
    print(json.dumps({name: value for name, value in rounded(columns[0]).items() if "(" not in name}))


if __name__ == "__main__":
    main(sys.argv[1:])
