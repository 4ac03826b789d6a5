"""Read the data sets of an evaluation: histories of dated messages, and questions with answers and evidence.

`talks` is part of Memolog. The files of LongMemEval, LoCoMo and BEAM are read from a path that the user names.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from memolog.core.config import Config
from memolog.core.message import NewMessage, Part, Role, TextPart, ToolCallPart, ToolResultPart
from memolog.core.observation import Scope
from memolog.errors import InputError

Rule: TypeAlias = Literal["answer", "abstention", "update", "temporal", "preference", "rubric"]
"""How an answer is judged; the judge has instructions for each."""
Kind: TypeAlias = Literal["talks", "longmemeval", "locomo", "beam"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a history. `name` is unique in the history, and questions cite it."""

    name: str
    role: Role
    text: str
    at: datetime
    speaker: str | None = None
    calls: tuple[Mapping[str, Any], ...] = ()
    result_of: str | None = None
    is_error: bool = False
    day: str = ""
    """The days that the words mean, if the data set names them; they are used to check answers, and no arm sees them."""

    def message(self) -> NewMessage:
        """Return the message as it is saved."""
        parts: tuple[Part, ...] = (TextPart(text=self.text),)
        if self.result_of is not None:
            parts = (ToolResultPart(call_id=self.result_of, content=self.text, is_error=self.is_error),)
        elif self.calls:
            text = parts if self.text else ()
            parts = (
                *text,
                *(ToolCallPart(id=one["id"], name=one["name"], arguments=one["arguments"]) for one in self.calls),
            )
        return NewMessage(role=self.role, parts=parts, created_at=self.at, speaker=self.speaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Messages that follow one another. Sessions with the same thread continue one conversation."""

    thread: str
    messages: tuple[Said, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its expected answer. `answer` is None if the history does not contain it."""

    id: str
    type: str
    rule: Rule
    text: str
    answer: str | None
    at: datetime
    evidence: frozenset[str] = frozenset()
    """The names of the messages that contain the answer."""
    rubric: tuple[str, ...] = ()
    """Statements that a good answer fulfils. Each is judged by itself."""
    absent: tuple[str, ...] = ()
    """Words with which an answer would be in the history, if there is none."""


@dataclass(frozen=True, kw_only=True)
class History:
    """Everything that was said before some questions."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    scope: Scope = "resource"
    """`thread` if there is one conversation, in which the questions are asked too."""
    zone: str | None = None

    @cached_property
    def messages(self) -> tuple[Said, ...]:
        """Return all messages in their order."""
        return tuple(said for session in self.sessions for said in session.messages)

    @cached_property
    def by_name(self) -> Mapping[str, Said]:
        """Return all messages by name."""
        return {said.name: said for said in self.messages}

    def place_of(self, name: str) -> tuple[str, int]:
        """Return the thread and the number of a message in it."""
        return self._places[name]

    @cached_property
    def _places(self) -> Mapping[str, tuple[str, int]]:
        counts: dict[str, int] = {}
        places: dict[str, tuple[str, int]] = {}
        for session in self.sessions:
            for said in session.messages:
                counts[session.thread] = counts.get(session.thread, 0) + 1
                places[said.name] = session.thread, counts[session.thread]
        return places


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Histories with questions. `settings` override the defaults of Memolog unless the user sets them too."""

    kind: Kind
    histories: tuple[History, ...]
    fingerprint: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])

    @cached_property
    def questions(self) -> tuple[tuple[History, Question], ...]:
        """Return every question with its history."""
        return tuple((history, question) for history in self.histories for question in history.questions)

    def config(self, given: Config) -> Config:
        """Return the configuration for the histories: the given one, completed with the settings of this data set."""
        return given.with_overrides({name: value for name, value in self.settings.items() if name not in given.named})

    def part(self, *, limit: int | None = None, types: Sequence[str] = ()) -> "DataSet":
        """Return the first `limit` questions, only of these types."""
        known = {question.type for _, question in self.questions}
        if unknown := sorted(set(types) - known):
            raise InputError(
                f"There are no questions of the type {', '.join(unknown)}.",
                then=f"Choose among {', '.join(sorted(known))}.",
            )
        left, kept = limit if limit is not None else len(self.questions), list[History]()
        for history in self.histories:
            chosen = tuple(one for one in history.questions if not types or one.type in types)[:left]
            left -= len(chosen)
            if chosen:
                kept.append(replace(history, questions=chosen))
        return replace(self, histories=tuple(kept))


def read(kind: Kind, path: Path | None = None) -> DataSet:
    """Return a data set. `path` is the file or the folder with its data; `talks` needs none."""
    if kind == "talks":
        return _talks()
    if path is None or not path.exists():
        raise InputError(f"There is no data at {path}.", then="Name the file or the folder with --data.")
    try:
        texts = list(_texts(path, kind))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path} cannot be decompressed.",
            why=f"{error}",
            then="Download the file again: it is incomplete or damaged.",
        ) from error
    if not texts:
        raise InputError(f"{path} has no data of {kind}.", then=_WHERE[kind])
    digest = hashlib.sha256()
    for _, text in texts:
        digest.update(text)
    readers = {"longmemeval": _longmemeval, "locomo": _locomo, "beam": _beam}
    try:
        histories = tuple(readers[kind](texts))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(
            f"{path} cannot be read as {kind}.", why=f"{type(error).__name__}: {error}.", then=_WHERE[kind]
        ) from error
    if not any(history.questions for history in histories):
        raise InputError(f"{path} has no questions.", then=_WHERE[kind])
    # The log of a user with many short conversations is shared by all of them.
    settings = {} if kind == "beam" else {"scope": "resource"}
    # Nobody in these conversations writes code, except in some of BEAM.
    return DataSet(
        kind=kind,
        histories=histories,
        fingerprint=digest.hexdigest()[:16],
        settings={"voice": "general", **settings},
    )


_WHERE: Final = {
    "longmemeval": "Name a file such as longmemeval_s.json or longmemeval_oracle.json, also compressed with gzip.",
    "locomo": "Name a file such as locomo10.json, also compressed with gzip.",
    "beam": "Name a folder that contains folders with chat.json and probing_questions/probing_questions.json.",
}


def _texts(path: Path, kind: Kind) -> Iterator[tuple[Path, bytes]]:
    """Yield the files of a data set with their contents."""
    if kind != "beam":
        yield path, _content(path)
        return
    for chat in sorted(path.rglob("chat.json")):
        probing = chat.parent / "probing_questions" / "probing_questions.json"
        if probing.is_file():
            yield chat, _content(chat)
            yield probing, _content(probing)


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


# ---------------------------------------------------------------- talks

# The conversations are short. With these settings each has several groups of observations and a tail.
_TALK_SETTINGS: Final = {
    "observation.message_tokens": 2_000,
    "observation.buffer_tokens": 0.4,
    "observation.previous_tokens": 1_000,
    "voice": "general",
}
_TALK_RULES: Final[Mapping[str, Rule]] = {"abstention": "abstention", "update": "update", "temporal": "temporal"}


def _talks() -> DataSet:
    rows = [one for one in files("memolog.apps.eval").joinpath("talks").iterdir() if one.name.endswith(".json")]
    texts = [one.read_bytes() for one in sorted(rows, key=lambda one: one.name)]
    histories = tuple(_talk(json.loads(text)) for text in texts)
    digest = hashlib.sha256(b"".join(texts)).hexdigest()[:16]
    return DataSet(kind="talks", histories=histories, fingerprint=digest, settings=_TALK_SETTINGS)


def _talk(row: Mapping[str, Any]) -> History:
    name = row["name"]
    messages = tuple(
        Said(
            name=f"{name}:{number}",
            role=one["role"],
            text=one["text"],
            at=datetime.fromisoformat(one["at"]),
            calls=tuple(one.get("calls", ())),
            result_of=one.get("call"),
            is_error=one.get("error", False),
            day=" ".join(one.get("dates", ())),
        )
        for number, one in enumerate(row["messages"])
    )
    at = messages[-1].at + timedelta(days=1)
    questions = tuple(
        Question(
            id=f"{name}-{number}",
            type=one["type"],
            rule=_TALK_RULES.get(one["type"], "answer"),
            text=one["question"],
            answer=one["answer"],
            at=at,
            evidence=frozenset(f"{name}:{place}" for place in one["evidence"]),
            absent=tuple(one.get("absent", ())),
        )
        for number, one in enumerate(row["questions"], 1)
    )
    session = Session(thread=name, messages=messages)
    return History(id=name, sessions=(session,), questions=questions, scope="thread", zone=row["zone"])


# ---------------------------------------------------------------- LongMemEval

_MEMEVAL_RULES: Final[Mapping[str, Rule]] = {
    "knowledge-update": "update",
    "temporal-reasoning": "temporal",
    "single-session-preference": "preference",
}


def _longmemeval(texts: Sequence[tuple[Path, bytes]]) -> Iterator[History]:
    for row in json.loads(texts[0][1]):
        sessions: list[Session] = []
        taken: set[str] = set()
        dated = zip(row["haystack_session_ids"], row["haystack_dates"], row["haystack_sessions"], strict=True)
        evidence: set[str] = set()
        for name, when, turns in sorted(dated, key=lambda one: _american(one[1])):
            # Some files list a session twice.
            thread = name if name not in taken else f"{name}-{len(taken)}"
            taken.add(thread)
            start = _american(when)
            said = [
                Said(name=f"{thread}:{number}", role=turn["role"], text=turn["content"], at=_after(start, number))
                for number, turn in enumerate(turns)
                if turn["content"].strip()
            ]
            evidence |= {f"{thread}:{number}" for number, turn in enumerate(turns) if turn.get("has_answer")}
            if said:
                sessions.append(Session(thread=thread, messages=tuple(said)))
        kind, is_absent = row["question_type"], row["question_id"].endswith("_abs")
        question = Question(
            id=row["question_id"],
            type="abstention" if is_absent else kind,
            rule="abstention" if is_absent else _MEMEVAL_RULES.get(kind, "answer"),
            text=row["question"],
            answer=None if is_absent else str(row["answer"]),
            at=_american(row["question_date"]),
            evidence=frozenset() if is_absent else frozenset(evidence & _names(sessions)),
        )
        yield History(id=row["question_id"], sessions=tuple(sessions), questions=(question,))


def _names(sessions: Sequence[Session]) -> set[str]:
    return {said.name for session in sessions for said in session.messages}


def _american(text: str) -> datetime:
    return datetime.strptime(re.sub(r" \(\w+\)", "", text), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def _after(start: datetime, number: int) -> datetime:
    """Return the time of a message, if only the session has one: a minute after the message before it."""
    return start + timedelta(minutes=number)


# ---------------------------------------------------------------- LoCoMo

_LOCOMO_TYPES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "abstention"}
_CITED: Final = re.compile(r"D(\d+):(\d+)")


def _locomo(texts: Sequence[tuple[Path, bytes]]) -> Iterator[History]:
    for place, row in enumerate(json.loads(texts[0][1])):
        talk, sessions = row["conversation"], list[Session]()
        number = 0
        while f"session_{(number := number + 1)}_date_time" in talk:
            start = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            said = [
                Said(
                    name=turn["dia_id"],
                    role="user" if turn["speaker"] == talk["speaker_a"] else "assistant",
                    text=_with_picture(turn),
                    at=_after(start, order),
                    speaker=turn["speaker"],
                )
                for order, turn in enumerate(talk.get(f"session_{number}", []))
            ]
            if said:
                sessions.append(Session(thread=f"session-{number}", messages=tuple(said)))
        names = _names(sessions)
        at = max(said.at for session in sessions for said in session.messages) + timedelta(days=1)
        id_ = str(row.get("sample_id", place))
        questions = tuple(_locomo_question(one, f"{id_}-{order}", at, names) for order, one in enumerate(row["qa"], 1))
        yield History(id=id_, sessions=tuple(sessions), questions=questions)


def _with_picture(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [shares a picture: {caption}]" if caption else str(turn["text"])


def _locomo_question(row: Mapping[str, Any], id_: str, at: datetime, names: set[str]) -> Question:
    kind = _LOCOMO_TYPES[row["category"]]
    # Some ids are malformed or do not exist.
    cited = {f"D{int(a)}:{int(b)}" for text in row.get("evidence") or () for a, b in _CITED.findall(str(text))}
    is_absent = kind == "abstention"
    rules: Mapping[str, Rule] = {"temporal": "temporal", "abstention": "abstention"}
    return Question(
        id=id_,
        type=kind,
        rule=rules.get(kind, "answer"),
        text=row["question"],
        answer=None if is_absent else str(row["answer"]),
        at=at,
        evidence=frozenset() if is_absent else frozenset(cited & names),
    )


# ---------------------------------------------------------------- BEAM

# The name of the expected answer depends on the ability.
_BEAM_ANSWERS: Final = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
_ANCHOR: Final = re.compile(r"([A-Z][a-z]+)-(\d{1,2})-(\d{4})")
_BEAM_START: Final = datetime(2024, 1, 1, 9, 0, tzinfo=UTC)
# The generator of the data left these marks at the ends of messages.
_BEAM_MARK: Final = re.compile(r"\s*->->\s*[\d,\s]*\Z")


def _beam(texts: Sequence[tuple[Path, bytes]]) -> Iterator[History]:
    for (chat, said), (_, probing) in zip(texts[::2], texts[1::2], strict=True):
        id_ = f"{chat.parent.parent.name}-{chat.parent.name}"
        messages = tuple(_beam_messages(json.loads(said)))
        known = {one.name for one in messages}
        at = messages[-1].at + timedelta(days=1)
        questions = tuple(
            _beam_question(row, f"{id_}-{ability}-{number}", ability, at, known)
            for ability, rows in json.loads(probing).items()
            for number, row in enumerate(rows, 1)
        )
        yield History(
            id=id_,
            sessions=(Session(thread=id_, messages=messages),),
            questions=questions,
            scope="thread",
        )


def _beam_messages(batches: Any) -> Iterator[Said]:
    """Yield the messages of a chat in order. Chats of ten million tokens have several plans with batches each."""
    at, taken = _BEAM_START, set[str]()
    for batch in _beam_batches(batches):
        for turn in batch["turns"]:
            for row in turn:
                text = _BEAM_MARK.sub("", str(row["content"]))
                if not text.strip():
                    continue
                anchor = row.get("time_anchor") or batch.get("time_anchor")
                at = max(_anchored(anchor) or at, at) + timedelta(minutes=1)
                name = str(row.get("id", len(taken)))
                name = name if name not in taken else f"{name}-{len(taken)}"
                taken.add(name)
                yield Said(name=name, role=row["role"], text=text, at=at)


def _beam_batches(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        table = cast("Mapping[str, Any]", value)
        if "turns" in table:
            yield table
            return
        value = table.values()
    for inner in cast("Sequence[Any]", value):
        if isinstance(inner, dict | list):
            yield from _beam_batches(inner)


def _anchored(anchor: object) -> datetime | None:
    hit = _ANCHOR.match(str(anchor or ""))
    if hit is None:
        return None
    try:
        return datetime.strptime(" ".join(hit.groups()), "%B %d %Y").replace(hour=9, tzinfo=UTC)
    except ValueError:
        return None


def _beam_question(row: Mapping[str, Any], id_: str, ability: str, at: datetime, known: set[str]) -> Question:
    answer = next((str(row[name]) for name in _BEAM_ANSWERS if row.get(name)), None)
    is_absent = ability == "abstention"
    return Question(
        id=id_,
        type=ability,
        rule="abstention" if is_absent else "rubric",
        text=row["question"],
        answer=None if is_absent else answer,
        at=at,
        evidence=frozenset() if is_absent else frozenset(set(map(str, _flat(row.get("source_chat_ids")))) & known),
        rubric=tuple(map(str, row.get("rubric") or ())),
    )


def _flat(value: object) -> Iterator[object]:
    """Yield the ids in a list, or in a table of lists."""
    if isinstance(value, dict):
        value = list(cast("Mapping[str, object]", value).values())
    if isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _flat(inner)
    elif value is not None:
        yield value


def days_meant(said: Said) -> tuple[date, ...]:
    """Return the days that the data set says a message means."""
    return tuple(date.fromisoformat(day) for given in said.day.split() for day in given.split("/"))
