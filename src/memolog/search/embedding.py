"""Values and pure functions of the search by meaning: the interface of embedders, texts to embed, and arithmetic on vectors.

A vector is stored as one byte for each dimension, and a scale. numpy is an optional dependency, imported at the first use.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from memolog.core.exact_json import loads, unpack
from memolog.core.message import parts_from_json
from memolog.db.queries import Row
from memolog.errors import ConfigError, InputError
from memolog.search.analysis import Redact, text_of_parts
from memolog.search.query import Query

Vector: TypeAlias = Sequence[float]
Array: TypeAlias = Any
"""An array of numpy."""

# Models read at most about 8,000 tokens, and many only 256 or 512, so the end of a long text is not embedded.
LONGEST_TEXT: Final = 8_000
_LARGEST: Final = 127
# Scores are computed for this many vectors at a time, because bytes need four times the memory as numbers.
_ROWS_AT_ONCE: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vectors of some texts, in their order, with the tokens and the cost of the request."""

    vectors: Sequence[Vector]
    tokens: int = 0
    cost: float = 0.0
    """In US dollars."""


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts. Texts with a similar meaning have vectors with a small angle between them."""

    @property
    def name(self) -> str:
        """Return the name of the model. Vectors of embedders with different names are never compared."""
        ...

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Embedded:
        """Return the vectors of the texts. `is_query` says that they are questions, which some models embed in another way."""
        ...


class Near(NamedTuple):
    """A text whose vector is near the vector of a query."""

    pk: int
    """The key of the vector."""
    place: int
    similarity: float
    """The cosine of the angle between the vectors."""


def is_for_meaning(query: Query) -> bool:
    """Return whether a query is searched by meaning too. Queries with quotes, stars, paths or identifiers ask for exact words."""
    if query.phrases or query.named or query.without_phrases or query.names_code or not query.wishes:
        return False
    return not any(
        wish.prefix is not None or wish.inside is not None or _is_identifier(wish.word) for wish in query.wishes
    )


def _is_identifier(word: str) -> bool:
    """Return whether a word contains digits and letters, or a sign of paths and names. "Long-term" is a word."""
    has_sign = any(character in "_/\\.:@#+=" for character in word.strip("."))
    is_mixed = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
    return has_sign or is_mixed


def place_of(doc: int) -> int:
    """Return the key of a document without its length and class."""
    return doc >> 8 if doc > 0 else -(-doc >> 8)


def text_of_message(row: Row, redact: Redact) -> str:
    """Return the text of a message to embed: the text in which words are searched, after the name of its speaker."""
    text = text_of_parts(parts_from_json(row.parts)) if row.search is None else unpack(row.search) or ""
    speaker = unpack(row.speaker) or ""
    return redact(f"{speaker}: {text}" if speaker else text)[:LONGEST_TEXT]


def text_of_line(row: Row, redact: Redact) -> str:
    """Return the text of an observation to embed."""
    return redact("\n".join(filter(None, (unpack(row.text), unpack(row.verbatim), *map(str, loads(row.files))))))[
        :LONGEST_TEXT
    ]


# ---------------------------------------------------------------- arithmetic


@cache
def numpy() -> Any:
    """Return the module numpy. Raises ConfigError if it is not installed."""
    if importlib.util.find_spec("numpy") is None:
        raise ConfigError(
            "The search by meaning needs numpy, which is not installed.",
            why="It is an optional part of Memolog.",
            then='Run: pip install "memolog[semantic]". Until then search finds words only.',
        )
    return importlib.import_module("numpy")


def unit(vector: Vector) -> Array:
    """Return a vector with the length 1. Raises InputError if it is not a list of finite numbers."""
    np = numpy()
    try:
        array = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError):
        array = np.empty((0, 0), dtype=np.float32)
    length = float(np.linalg.norm(array)) if array.ndim == 1 else float("nan")
    if array.ndim != 1 or not len(array) or not np.isfinite(length):
        raise InputError(
            "The embedder returned a value that is not a vector.", then="Return a list of numbers for each text."
        )
    # The vector of an empty text may be 0. It is similar to nothing.
    return array / length if length else array


def in_bytes(array: Array) -> tuple[float, bytes]:
    """Return the scale and the bytes of a vector."""
    np = numpy()
    most = float(np.max(np.abs(array)))
    scale = most / _LARGEST if most else 1.0
    return scale, np.rint(array / scale).astype(np.int8).tobytes()


class Matrix:
    """The vectors of one set in the order of their keys. It grows at its end."""

    def __init__(self, dimension: int) -> None:
        np = numpy()
        self.dimension = dimension
        self.size = self.dead = 0
        self._pks = np.empty(0, dtype=np.int64)
        self._places = np.empty(0, dtype=np.int64)
        self._scales = np.empty(0, dtype=np.float32)
        self._codes = np.empty((0, dimension), dtype=np.int8)

    @property
    def last(self) -> int:
        """Return the key of the last vector, or 0."""
        return int(self._pks[self.size - 1]) if self.size else 0

    @property
    def bytes(self) -> int:
        """Return the bytes of memory."""
        return int(self._codes.nbytes + self._pks.nbytes + self._places.nbytes + self._scales.nbytes)

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows of vectors with higher keys."""
        # A vector with another dimension is an error of the database. It is similar to nothing.
        np, width = numpy(), self.dimension
        whole = [len(row.vector) == width for row in rows]
        codes = b"".join(bytes(row.vector) if fits else b"\0" * width for row, fits in zip(rows, whole, strict=True))
        self._reserve(len(rows))
        some = slice(self.size, self.size + len(rows))
        self._pks[some] = [row.pk for row in rows]
        self._places[some] = [row.place for row in rows]
        self._scales[some] = [row.scale for row in rows]
        self._codes[some] = np.frombuffer(codes, dtype=np.int8).reshape(len(rows), width)
        self.size += len(rows)

    def _reserve(self, count: int) -> None:
        np, needed = numpy(), self.size + count
        if needed <= len(self._pks):
            return
        # The first rows are added in pages of known size. Later a quarter is added, so that few rows are copied often.
        room = max(needed, self.size + self.size // 4)
        for name in ("_pks", "_places", "_scales", "_codes"):
            old = getattr(self, name)
            new = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)

    def remove(self, pks: Sequence[int]) -> None:
        """Let some vectors be similar to nothing, because they were deleted."""
        np = numpy()
        wanted = np.asarray(pks, dtype=np.int64)
        at = np.searchsorted(self._pks[: self.size], wanted)
        # Another search may have read the vectors anew, without some of these.
        is_here = at < self.size
        at, wanted = at[is_here], wanted[is_here]
        at = at[self._pks[at] == wanted]
        self._scales[at] = 0.0
        self._codes[at] = 0
        self.dead += len(at)

    def nearest(self, query: Array, count: int, least: float, threads: Sequence[int]) -> list[Near]:
        """Return at most `count` vectors with a similarity of at least `least`. `threads`, if given, restricts messages."""
        np, size = numpy(), self.size
        scores = np.empty(size, dtype=np.float32)
        for start in range(0, size, _ROWS_AT_ONCE):
            some = slice(start, min(size, start + _ROWS_AT_ONCE))
            scores[some] = self._codes[some].astype(np.float32) @ query
        scores *= self._scales[:size]
        if threads:
            places = self._places[:size]
            scores[(places > 0) & ~np.isin(places >> _SEQ_BITS, np.asarray(threads, dtype=np.int64))] = -1.0
        best = np.argpartition(scores, -count)[-count:] if size > count else np.arange(size)
        found = [
            Near(int(self._pks[at]), int(self._places[at]), float(scores[at])) for at in best if scores[at] >= least
        ]
        return sorted(found, key=lambda near: (-near.similarity, -near.place))


_SEQ_BITS: Final = 25
"""The bits of the number of a message in its place. The bits above are its thread."""
