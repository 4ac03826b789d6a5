"""Store the results of an evaluation in tables of the SQLite file in which its memories are, so that it can be resumed."""

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from memolog import Memory
from memolog.apps.eval.string_judge import Verdict
from memolog.errors import InputError, StoreBusy, StoreUnavailable

# Background work of the memories may hold the write lock of the file for a moment.
_BUSY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A history that is stored and observed. `problem` is empty if all of it was observed."""

    raw_tokens: int
    log_tokens: int
    seconds: float
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question in one arm."""

    text: str
    tokens: int
    """The size of the context, with the results of searches."""
    searches: int = 0
    evidence: Mapping[str, float] = field(default_factory=dict[str, float])
    """By place (log, tail, search, history), the share of the evidence that was in the context; `any` for all places."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A paid call of a model."""

    role: str
    history: str
    question: str = ""
    arm: str = ""
    model: str
    input_tokens: int
    output_tokens: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The sum of all calls with one role, arm and model."""

    role: str
    arm: str
    model: str
    count: int
    input_tokens: int
    output_tokens: int
    cost: float


@cache
def _queries() -> Mapping[str, str]:
    text = files("memolog.apps.eval").joinpath("sql/results.sql").read_text("utf-8")
    pieces = re.split(r"^-- (\w+) --$", text, flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def _locked(path: Path) -> sqlite3.Connection:
    """Return a connection that holds a lock beside the file until it is closed or the process ends.

    Two processes would live through the same histories, and every message would be in the memories twice.
    """
    lock = sqlite3.connect(path.with_name(f"{path.name}.lock"), isolation_level=None, timeout=0)
    try:
        lock.execute(_queries()["take_lock"])
    except sqlite3.OperationalError as error:
        lock.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StoreBusy(
                f"Another evaluation with {path} is running.",
                why="Two of them would store every message of their conversations twice.",
                then="Wait until it has ended, or name another file with --file.",
            ) from error
        raise
    return lock


async def open_results(path: Path) -> "Results":
    """Open or create the file of an evaluation. Memolog makes its own tables first, because it uses no file of others."""
    async with Memory(path):
        pass
    return Results(path)


class Results:
    """The tables of one evaluation. Every call is committed at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._lock = _locked(path)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
            self._db.executescript(_queries()["schema"])
        except sqlite3.Error as error:
            raise StoreUnavailable(
                f"{path} cannot be used for an evaluation.", why=f"{error}.", then="Name another file with --file."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()
        self._lock.close()

    def claim(self, setup: Mapping[str, str]) -> None:
        """Store what the memories were made from, or raise InputError if the file has memories that were made otherwise."""
        stored = self.setup
        differing = [name for name, value in setup.items() if stored.get(name, value) != value]
        if differing:
            name = differing[0]
            raise InputError(
                f"{self.path} has an evaluation with another {name}: {stored[name]}, not {setup[name]}.",
                why="Its memories would be mixed with those of this evaluation.",
                then="Name a new file with --file, or repeat the options of the evaluation that it has.",
            )
        for name, value in setup.items():
            self._run("put_setup", name=name, value=value)

    @property
    def setup(self) -> Mapping[str, str]:
        """Return what the memories were made from."""
        return dict(self._rows("setup"))

    def put_history(self, id_: str, lived: Lived) -> None:
        """Store that a history is complete."""
        self._run(
            "put_history",
            id=id_,
            raw_tokens=lived.raw_tokens,
            log_tokens=lived.log_tokens,
            seconds=lived.seconds,
            problem=lived.problem,
        )

    def histories(self) -> dict[str, Lived]:
        """Return the complete histories by id."""
        return {
            id_: Lived(raw_tokens=raw, log_tokens=log, seconds=seconds, problem=problem)
            for id_, raw, log, seconds, problem in self._rows("histories")
        }

    def put_answer(self, question: str, arm: str, reader: str, answer: Answer) -> None:
        """Store an answer."""
        self._run(
            "put_answer",
            question=question,
            arm=arm,
            reader=reader,
            text=answer.text,
            tokens=answer.tokens,
            searches=answer.searches,
            evidence=json.dumps(dict(answer.evidence)),
            seconds=answer.seconds,
        )

    def answers(self, reader: str) -> dict[tuple[str, str], Answer]:
        """Return the answers of a reader by question and arm."""
        return {
            (question, arm): Answer(
                text=text, tokens=tokens, searches=searches, evidence=json.loads(evidence), seconds=seconds
            )
            for question, arm, text, tokens, searches, evidence, seconds in self._rows("answers", reader=reader)
        }

    def put_verdict(self, question: str, arm: str, reader: str, judge: str, verdict: Verdict) -> None:
        """Store a verdict."""
        votes = json.dumps(verdict.votes)
        score, why = verdict.score, verdict.why
        self._run(
            "put_verdict", question=question, arm=arm, reader=reader, judge=judge, score=score, why=why, votes=votes
        )

    def verdicts(self, reader: str, judge: str) -> dict[tuple[str, str], Verdict]:
        """Return the verdicts of a judge over the answers of a reader, by question and arm."""
        return {
            (question, arm): Verdict(score=score, why=why, votes=tuple(json.loads(votes)))
            for question, arm, score, why, votes in self._rows("verdicts", reader=reader, judge=judge)
        }

    def put_call(self, call: Call) -> None:
        """Store a call of a model and its cost."""
        self._run(
            "put_call",
            role=call.role,
            history=call.history,
            question=call.question,
            arm=call.arm,
            model=call.model,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            cost=call.cost,
        )

    def spent(self) -> float:
        """Return the dollars of all calls."""
        return float(self._rows("spent")[0][0])

    def calls(self) -> tuple[Calls, ...]:
        """Return the sums of all calls by role, arm and model."""
        return tuple(
            Calls(role=role, arm=arm, model=model, count=count, input_tokens=read, output_tokens=written, cost=cost)
            for role, arm, model, count, read, written, cost in self._rows("calls")
        )

    def _rows(self, query: str, **values: object) -> list[Any]:
        return self._db.execute(_queries()[query], values).fetchall()

    def _run(self, query: str, **values: object) -> None:
        self._db.execute(_queries()[query], values)
