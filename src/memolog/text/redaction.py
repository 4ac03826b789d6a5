"""Find secrets in texts, JSON values, messages and log records, and replace them by `[redacted: kind]`, in linear time.

Encoded text (JSON in strings, percent-encoding, HTML entities, terminal colours) is decoded for the search.
"""

import asyncio
import json
import logging
import re
import string
import traceback
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar, cast

from memolog.core.cache import Seen
from memolog.core.config import Config
from memolog.core.deadline import in_slices
from memolog.core.exact_json import JsonValue, dumps
from memolog.core.message import (
    FilePart,
    Message,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.setting_kinds import patterns_in
from memolog.text.secret_context import (
    CONTEXT_WORDS,
    is_reference,
    kind_of_entry,
    kind_of_name,
    secrets_in_context,
    stands_for_secret,
)
from memolog.text.secret_formats import KEY_WORDS, Found, keys_by_words, keys_in, lower_words

AnyMessage = TypeVar("AnyMessage", Message, NewMessage)

_WORDS: Final = KEY_WORDS | CONTEXT_WORDS
# The maximum number of nested encodings that are decoded. Also the maximum number of searches in one text.
_LAYERS: Final = 6
# Maximum nesting of a JSON value in which secrets are found by the names of their fields.
_MAX_DEPTH: Final = 100
# A text of fewer than `_MIN_TEXT` characters has no secret. A command of more than `_MAX_COMMAND` characters is not searched.
_MIN_TEXT: Final = 5
_MAX_COMMAND: Final = 20_000
_NAMES: Final = ("pass", "secret", "token", "credential", "cookie", "authorization", "pwd", '"kty"')
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")
# A message that has more tokens than this is redacted in a worker thread.
_LONG_TOKENS: Final = 5_000
# The hashes of the latest texts without secrets, because the same message is redacted for its transcript, for the checks of a
# reply and, often much later, for the index. The texts themselves are not kept.
_CLEAN: Final = Seen(16_384)
# The name of a kind of secret has at most 100 characters here, because a pattern without a limit would not be linear.
_MARK: Final = re.compile(r"\[redacted: [^\]\n]{0,100}+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redactor:
    """Replaces secrets by `[redacted: kind]`."""

    extra: tuple[tuple[str, re.Pattern[str]], ...] = ()
    """More kinds of secrets, with their patterns. If a pattern has a group named `secret`, only this group is replaced."""
    enabled: bool = True

    def redact(self, text: str) -> str:
        """Return the text without its secrets, or the same object if it has none. Earlier placeholders are unchanged."""
        if not self.enabled or (len(text) < _MIN_TEXT and not self.extra):
            return text
        key = hash((self, text))
        if key in _CLEAN:
            return text
        clean = self._redact(text)
        if clean is text:
            _CLEAN.add(key)
        return clean

    def _redact(self, text: str) -> str:
        # The search is repeated, because a secret may be found only after the secret before it is replaced.
        for _ in range(_LAYERS):
            secrets = _joined(self._found(text, _LAYERS))
            if not secrets:
                break
            pieces: list[str] = []
            at = 0
            for start, end, kind in secrets:
                pieces += [text[at:start], f"[redacted: {kind}]"]
                at = end
            text = "".join([*pieces, text[at:]])
        return text

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without the secrets in its texts, and without values whose name is that of a secret (`"password"`).

        Return the same object if it has no secret.
        """
        return _JsonRedactor(self).value(value) if self.enabled else value

    def in_line(self, text: str) -> list[Found]:
        """Return the secrets in a command, without decoding the command."""
        return _joined(self._found(text, 0)) if len(text) <= _MAX_COMMAND else []

    def _found(self, text: str, layers: int) -> list[Found]:
        found = [one for kind, pattern in self.extra for one in _by_pattern(text, kind, pattern)]
        found += _blocks(text)
        lower, data = _lowered(text), text.encode("utf-8", "replace")
        words = _WORDS.intersection(lower_words(data))
        found += keys_in(text, data)
        found += keys_by_words(text, lower, words)
        found += secrets_in_context(text, lower, words)
        if text[:1] in {"{", "["} and any(name in lower for name in _NAMES):
            found += _secrets_in_json(text, layers)
        for inner in _layers(text, data) if layers else ():
            found += [inner.outside(one) for one in self._found(inner.text, layers - 1)]
        return found


REDACTION: Final = Redactor()
"""Redacts with the built-in patterns."""

NO_REDACTION: Final = Redactor(enabled=False)
"""Redacts nothing."""


def redactor_for(config: Config) -> Redactor:
    """Return the redactor of a configuration."""
    if not config.redact:
        return NO_REDACTION
    return REDACTION if config.redact_patterns is None else _redactor_with(config.redact_patterns)


@lru_cache(maxsize=32)
def _redactor_with(text: str) -> Redactor:
    return Redactor(extra=tuple((kind, re.compile(expression)) for kind, expression in patterns_in(text)))


def for_the_index(config: Config) -> Callable[[str], str]:
    """Return a function that removes secrets and their placeholders from a text before it is indexed."""
    redact = redactor_for(config).redact
    return lambda text: _MARK.sub(" ", redact(text))


# ---------------------------------------------------------------- messages


def without_secrets(message: AnyMessage, redactor: Redactor = REDACTION) -> AnyMessage:
    """Return the message with every secret replaced by `[redacted: kind]`, or the same object if it has no secret."""
    parts = parts_without_secrets(message.parts, redactor)
    metadata = redactor.value(message.metadata)
    speaker = redactor.redact(message.speaker) if message.speaker else message.speaker
    if parts == message.parts and metadata == message.metadata and speaker == message.speaker:
        return message
    return replace(message, parts=parts, metadata=metadata if isinstance(metadata, dict) else {}, speaker=speaker)


def messages_without_secrets(messages: Iterable[Message], redactor: Redactor) -> tuple[Message, ...]:
    """Return stored messages without their secrets."""
    return tuple(without_secrets(message, redactor) for message in messages)


async def cleaned(messages: Sequence[Message], redactor: Redactor) -> tuple[Message, ...]:
    """Return messages without their secrets. Other tasks can run between two messages, and while a long one is redacted."""
    if any(message.tokens > _LONG_TOKENS for message in messages):
        return await asyncio.to_thread(messages_without_secrets, messages, redactor)
    return await in_slices(_cleaning(messages, redactor))


def _cleaning(messages: Sequence[Message], redactor: Redactor) -> Generator[None, None, tuple[Message, ...]]:
    found: list[Message] = []
    for message in messages:
        found.append(without_secrets(message, redactor))
        yield
    return tuple(found)


def parts_without_secrets(parts: Sequence[Part], redactor: Redactor = REDACTION) -> tuple[Part, ...]:
    """Return the parts of a message without their secrets. A part without a secret is the same object."""
    return tuple(_clean_part(part, redactor) for part in parts)


_SEARCHED: Final[dict[type[Part], tuple[str, ...]]] = {
    TextPart: ("text",),
    ReasoningPart: ("text",),
    ToolCallPart: ("name", "arguments"),
    ToolResultPart: ("name", "content", "files"),
    FilePart: ("data", "url", "name"),
    UnknownPart: ("data",),
}


def _clean_part(part: Part, redactor: Redactor) -> Part:
    changed: dict[str, JsonValue] = {}
    for name in _SEARCHED[type(part)]:
        old = new = getattr(part, name)
        if name == "files":
            new = parts_without_secrets(old, redactor)
        elif isinstance(old, bytes):
            new = _clean_file(old, part, redactor)
        elif old:
            new = redactor.value(old)
        if new is not old and new != old:
            changed[name] = new
    if changed and isinstance(part, ReasoningPart):
        # The signature is removed, because providers refuse a signature that does not match the text.
        changed["signature"] = None
    return replace(part, **changed) if changed else part


def _clean_file(data: bytes, part: Part, redactor: Redactor) -> bytes:
    """Return the bytes of a text file without its secrets, or the bytes of another file unchanged."""
    if not isinstance(part, FilePart) or not part.media_type.lower().startswith(_TEXT_TYPES):
        return data
    try:
        return redactor.redact(data.decode()).encode()
    except UnicodeDecodeError:
        return data


# ---------------------------------------------------------------- log records


class _LogFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = REDACTION.redact(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[1] is not None:
            text = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
            clean = REDACTION.redact(text)
            if clean != text:
                record.exc_info, record.exc_text = None, clean
        return True


logging.getLogger("memolog").addFilter(_LogFilter())


# ---------------------------------------------------------------- JSON values

_TITLES: Final = frozenset({"name", "key", "k", "field", "variable", "header"})
_VALUES: Final = frozenset({"value", "val", "v"})
# The private fields of a JSON Web Key.
_PRIVATE_KEY_PARTS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})
_HEAD: Final = re.compile(r"[A-Za-z][\w .-]{0,40}\Z")
_JSON_TEXT: Final = re.compile(r"\"((?:[^\"\\]|\\.)*+)\"?", re.DOTALL)


class _JsonRedactor:
    """Redacts the values in a JSON value whose key or column has the name of a secret.

    With a redactor, the texts in the value are searched too.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor
        self.found: dict[str, str] = {}
        """The texts that were redacted because of their names, and their kinds of secret."""

    def value(self, value: JsonValue, depth: int = 0, owner: str | None = None) -> JsonValue:
        """Return a value without secrets. `owner` is the kind of secret that an outer key or column names, or None."""
        if isinstance(value, str):
            return self._redactor.redact(value) if self._redactor else value
        if depth > _MAX_DEPTH:
            return self._deep(value)
        if isinstance(value, dict):
            return self._table(cast("dict[str, JsonValue]", value), depth, owner)
        if isinstance(value, list | tuple):
            return self._list(cast("Sequence[JsonValue]", value), depth, owner)
        return value

    def _list(self, items: Sequence[JsonValue], depth: int, owner: str | None) -> JsonValue:
        kinds = _kinds_of_columns(items)
        clean = [
            self._row(cast("Sequence[JsonValue]", item), kinds, depth + 1)
            if kinds and number
            else self._owned("", item, depth, owner)
            for number, item in enumerate(items)
        ]
        if all(isinstance(item, str) for item in clean):
            clean = self._line(cast("list[str]", clean))
        return cast("JsonValue", items) if _same(clean, items) else clean

    def _row(self, row: Sequence[JsonValue], kinds: list[str | None], depth: int) -> JsonValue:
        clean = [self._owned("", item, depth, kind) for item, kind in zip(row, kinds, strict=True)]
        return cast("JsonValue", row) if _same(clean, row) else clean

    def _table(self, table: dict[str, JsonValue], depth: int, owner: str | None) -> JsonValue:
        # Environment variables are often a list of tables, each with a name and a value: `{"name": "API_KEY", "value": "…"}`.
        title = next((item for name, item in table.items() if isinstance(name, str) and name.lower() in _TITLES), "")  # pyright: ignore[reportUnnecessaryIsInstance]
        entries = {name: self._entry(name, title, item, depth, owner) for name, item in table.items()}
        if "kty" in table:
            entries |= {name: self._part_of_key(item) for name, item in entries.items() if name in _PRIVATE_KEY_PARTS}
        names = {name: self.value(name) if isinstance(name, str) else name for name in table}  # pyright: ignore[reportUnnecessaryIsInstance]
        if _same(list(entries.values()), list(table.values())) and all(names[name] == name for name in names):
            return table
        return {cast("str", names[name]): item for name, item in entries.items()}

    def _entry(self, name: object, title: JsonValue, item: JsonValue, depth: int, owner: str | None) -> JsonValue:
        """Return the value of an entry, redacted if the entry has the name of a secret."""
        if not isinstance(name, str):
            return self.value(item, depth + 1)
        if name.lower() in _VALUES and isinstance(title, str):
            name = title if kind_of_name(title) else ""
        if isinstance(item, dict | list | tuple):
            return self.value(item, depth + 1, kind_of_name(name.removesuffix("s")) or owner)
        new = self.value(item)
        if new is not item or isinstance(item, bool) or not isinstance(item, str | int):
            return new
        kind = kind_of_entry(name, str(item))
        return self._owned(name, item, depth, owner) if kind is None else self._replaced(item, kind)

    def _owned(self, name: str, item: JsonValue, depth: int, owner: str | None) -> JsonValue:
        new = self.value(item, depth + 1, owner)
        if owner and new is item and isinstance(item, str) and stands_for_secret(owner, name, item):
            return self._replaced(item, owner)
        return new

    def _part_of_key(self, item: JsonValue) -> JsonValue:
        return self._replaced(item, "private key") if isinstance(item, str) and not is_reference(item) else item

    def _replaced(self, item: str | int, kind: str) -> str:
        if isinstance(item, str):
            self.found[item] = kind
        return f"[redacted: {kind}]"

    def _line(self, items: list[str]) -> list[JsonValue]:
        """Return the words of a command without the secrets after its options: `["--password", "…"]`."""
        found = self._redactor.in_line(" ".join(items)) if self._redactor else []
        if not found:
            return [*items]
        at = 0
        clean: list[JsonValue] = []
        for item in items:
            end = at + len(item)
            for start, stop, kind in reversed(found):
                if at <= start and stop <= end:
                    item = f"{item[: start - at]}[redacted: {kind}]{item[stop - at :]}"  # noqa: PLW2901
            clean.append(item)
            at = end + 1
        return clean

    def _deep(self, value: JsonValue) -> JsonValue:
        """Return a value below the maximum depth: as one redacted JSON text if it has a secret, otherwise unchanged."""
        if not self._redactor:
            return value
        try:
            text = dumps(value)
        except (TypeError, ValueError, RecursionError):
            return value
        clean = self._redactor.redact(text)
        return value if clean == text else clean


def _kinds_of_columns(rows: Sequence[JsonValue]) -> list[str | None]:
    """Return the kind of secret of each column, from the names in the first row. A column without secrets has None.

    Return an empty list if `rows` is not a table or has no column of secrets.
    """
    if len(rows) < 2 or not isinstance(rows[0], list | tuple):  # noqa: PLR2004 - a row of names and one of values
        return []
    heads = cast("Sequence[JsonValue]", rows[0])
    if not all(isinstance(row, list | tuple) and len(cast("Sequence[JsonValue]", row)) == len(heads) for row in rows):
        return []
    kinds = [kind_of_name(head) if isinstance(head, str) else None for head in heads]
    return kinds if any(kinds) and all(isinstance(head, str) and _HEAD.match(head) for head in heads) else []


def _secrets_in_json(text: str, layers: int) -> Iterator[Found]:
    """Yield the values with the names of secrets in a JSON text, and in JSON texts inside its strings."""
    if text[:1] not in {"{", "["} or text.rstrip()[-1:] not in {"}", "]"}:
        return
    walk = _JsonRedactor()
    try:
        walk.value(json.loads(text))
    except (ValueError, RecursionError):
        return
    for hit in _JSON_TEXT.finditer(text):
        kind = walk.found.get(json.loads(hit[0])) if "\\" in hit[1] else walk.found.get(hit[1])
        if kind:
            yield Found(*hit.span(1), kind)
        inner = _decoded(hit[1]) if layers and hit[1][:1] in {"{", "["} else None
        if inner is not None:
            for one in map(inner.outside, _secrets_in_json(inner.text, layers - 1)):
                yield Found(hit.start(1) + one.start, hit.start(1) + one.end, one.kind)


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return all(one is other for one, other in zip(new, old, strict=True))


# ---------------------------------------------------------------- places in a text


def _by_pattern(text: str, kind: str, pattern: re.Pattern[str]) -> Iterator[Found]:
    group = "secret" if "secret" in pattern.groupindex else 0
    for hit in pattern.finditer(text):
        start, end = hit.span(group)
        if start < end and not (group and is_reference(text[start:end])):
            yield Found(start, end, kind)


def _lowered(text: str) -> str:
    lower = text.lower()
    # The lower case of a few letters is longer. Such a letter is not changed, so that all positions are the same as in the text.
    return lower if len(lower) == len(text) else "".join(low if len(low := one.lower()) == 1 else one for one in text)


def _joined(found: list[Found]) -> list[Found]:
    """Return the secrets by position. Overlapping secrets are joined, with the kind of the secret that was found first."""
    if len(found) < 2:  # noqa: PLR2004 - one secret has nothing to be joined with
        return found
    ranked = sorted(enumerate(found), key=lambda item: (item[1].start, item[0]))
    joined: list[tuple[int, Found]] = []
    for rank, one in ranked:
        if joined and one.start < joined[-1][1].end:
            last_rank, last = joined[-1]
            first = min((last_rank, last.kind), (rank, one.kind))
            joined[-1] = (first[0], Found(last.start, max(last.end, one.end), first[1]))
        else:
            joined.append((rank, one))
    return [one for _, one in joined]


# ---------------------------------------------------------------- texts inside texts

_ESCAPE: Final = re.compile(
    r"\\(?:[nrtbf\"'/\\`]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})"
    r"|%(?:[0-7][0-9a-fA-F]|[89a-fA-F][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){0,3})"
    r"|&(?:quot|apos|amp|lt|gt|nbsp|#[0-9]{2,5}|#x[0-9a-fA-F]{2,4});"
    r"|\x1b\[[0-9;]{0,20}m"
    r"|\+(?<=[\w%:;,.!?'\"=-]\+)(?=[\w%'\"./-])"
)
# Invisible characters, spaces of other widths, and letters and digits of full width, with their plain replacements.
_DISGUISES: Final = {
    **dict.fromkeys((0xAD, 0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF), ""),
    **dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
    **{ord(letter) + 0xFEE0: letter for letter in string.ascii_letters + string.digits},
}
_DISGUISED: Final = re.compile(f"[{''.join(map(chr, _DISGUISES))}]+")
_ASCII: Final = bytes(range(128))
_LETTERS: Final = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " "}
_ENTITIES: Final = {"quot": '"', "apos": "'", "amp": "&", "lt": "<", "gt": ">", "nbsp": " "}


class _Decoded(NamedTuple):
    """The lines of a text that have escapes, decoded. They consist of pieces: each is plain text or one decoded escape."""

    text: str
    starts: list[int]
    """The start of each piece in the decoded text."""
    places: list[tuple[int, int]]
    """The start and end of each piece in the original text."""

    def outside(self, found: Found) -> Found:
        """Return a secret in the decoded text with its position in the original text. An escape is never divided."""
        first = bisect_right(self.starts, found.start) - 1
        last = max(bisect_right(self.starts, found.end - 1) - 1, first)
        start, end = self.places[first][0], self.places[last][1]
        if self._is_plain(first):
            start += found.start - self.starts[first]
        if self._is_plain(last):
            end = self.places[last][0] + found.end - self.starts[last]
        return Found(start, end, found.kind)

    def _is_plain(self, number: int) -> bool:
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        low, high = self.places[number]
        return end - self.starts[number] == high - low


def _layers(text: str, data: bytes) -> Iterator[_Decoded]:
    """Yield up to two decoded forms of a text: one with disguised characters made plain, and one with its escapes decoded."""
    if len(data) > len(text) and _DISGUISED.search(data.translate(None, _ASCII).decode("utf-8", "replace")):
        plain = _decoded(text, _DISGUISED)
        if plain is not None:
            yield plain
    inner = _decoded(text)
    if inner is not None:
        yield inner


def _decoded(text: str, escapes: re.Pattern[str] = _ESCAPE) -> _Decoded | None:
    """Return the lines of a text that have escapes, with one layer of escapes decoded, or None if there are no escapes."""
    if escapes is _ESCAPE and not ("\\" in text or "%" in text or "+" in text or "&" in text or "\x1b[" in text):
        return None
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    at = line_end = 0
    for hit in escapes.finditer(text):
        if hit.start() >= line_end:
            pieces.append(text[at:line_end])
            places.append((at, line_end))
            at = text.rfind("\n", line_end, hit.start()) + 1 or line_end
            line_end = (text.find("\n", hit.end()) + 1) or len(text)
        pieces += [text[at : hit.start()], _meaning(hit[0])]
        places += [(at, hit.start()), hit.span()]
        at = hit.end()
    if not pieces:
        return None
    lengths = accumulate(map(len, pieces), initial=0)
    return _Decoded("".join([*pieces, text[at:line_end]]), list(lengths), [*places, (at, line_end)])


def _meaning(escape: str) -> str:
    match escape[0]:
        case "\\":
            letter, digits = escape[1], escape[2:]
            return chr(int(digits, 16)) if digits else _LETTERS.get(letter, letter)
        case "%":
            return bytes.fromhex(escape.replace("%", "")).decode(errors="replace")
        case "&":
            name, digits = escape[1:-1], escape.strip("&#x;")
            return _ENTITIES.get(name) or chr(int(digits, 16 if "x" in name else 10))
        case sign if not sign.isascii():
            return escape.translate(_DISGUISES)
        case _:
            return " "  # a terminal colour, or a plus sign that encodes a space in a form


# ---------------------------------------------------------------- private keys

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s\\:,.-]|(?<=\n)[>#])*+")
_PUTTY: Final = re.compile(r"Private-Lines: \d{1,4}\s{1,4}([A-Za-z0-9+/=\s]{40,20000}+)")
# The characters of a key whose first line is missing, and its maximum length in characters.
_BASE64: Final = f"{string.ascii_letters}{string.digits}+/=\n\r\\"
_MAX_KEY: Final = 20_000


def _blocks(text: str) -> Iterator[Found]:
    """Yield blocks of private keys, also if the beginning or the end of a block is missing."""
    if "PRIVATE KEY" not in text:
        if "Private-Lines: " in text:
            for hit in _PUTTY.finditer(text):
                yield Found(*hit.span(1), "private key")
        return
    at = 0
    while end := _END.search(text, at):
        begin = _BEGIN.search(text, at, end.start())
        low = max(at, end.start() - _MAX_KEY)
        start = begin.start() if begin else low + len(text[low : end.start()].rstrip(_BASE64))
        yield Found(start, end.end(), "private key")
        at = end.end()
    begin = _BEGIN.search(text, at)
    if begin:
        body = _KEY_BODY.match(text, begin.end())
        yield Found(begin.start(), body.end() if body else begin.end(), "private key")
