"""Find regular expressions of the library that take more than linear time on hostile texts.

    make bench-patterns ARGS="--no-tests"

Every pattern that a module under src/memolog compiles is collected, while all modules are imported and while some tests run. The
tests are needed because a few patterns are made from the words of a text. Each pattern gets texts that repeat its own pieces (see
`texts_for`), with the methods that its module calls on it. It is reported if 100 kB take more than 40 times as long as 10 kB. A
linear pattern takes 10 times as long, a quadratic one 100 times. Times are processor times, the best of five. A pattern that
takes less than a millisecond for 100 kB is not reported.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import ast
import importlib
import json
import pkgutil
import random
import re
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any, Final

import memolog
from table import table

SOURCE: Final = Path(memolog.__file__).resolve().parent
TESTS: Final = Path(__file__).resolve().parent.parent / "tests"
# These tests make most of the patterns that are not made on import: phrases, names and forms of words.
REPRESENTATIVE: Final = (
    "unit/test_grounding.py",
    "unit/test_search.py",
    "unit/test_snippets.py",
    "unit/test_redact.py",
    "unit/test_documents.py",
    "unit/test_extractive_observe.py",
    "unit/test_extractive_reflect.py",
    "unit/test_extracts.py",
    "unit/test_config.py",
    "property/test_phrases.py",
    "prompts/test_corpus.py",
    "prompts/test_modes.py",
    "tools/test_corpus.py",
)
METHODS: Final = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")
SMALL, LARGE = 10_000, 100_000
GROWTH = 40.0
LEAST_SECONDS = 0.001
MOST_SECONDS = 2.0
"""The longest processor time of one measurement, in seconds. A pattern that takes longer is reported."""
ROUNDS = 5
MOST_OF_A_PLACE = 3
"""At most this many patterns of one source line are tried."""
MOST_TEXTS = 60
MOST_SAMPLES = 3
LONGEST_SAMPLE = 300
LONG_REPEAT = 40
"""A repetition in a pattern is tested if it may have at least this many rounds."""

GENERIC: Final = (
    "\n", " ", "\n ", " \n", "\t", "a", "A", "0", "_", "é", "ß", "日", "\u0e01", '"', "'", "\\", '\\"', "`", "*", "-", "=", "#",
    "|", ".", ",", ":", "/", "<", ">", "</", "[", "]", "(", ")", "{", "}", "[]", "()", "&", "&amp;", "a ", "A ", "a.", "a/", "a-",
    "aA", "Aa", "AAa ", "0.", "0,", "a\n", "0 ", "**a", "``", "<a>", "<a ", "[a](", "a: ", ". ", ", a", "a'", "\u200b", "\u00ad",
)  # fmt: skip


# ---------------------------------------------------------------- collecting


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A pattern, the source line that made it, and the methods that are called on it."""

    pattern: re.Pattern[Any]
    file: str
    line: int
    name: str
    methods: tuple[str, ...]

    @property
    def place(self) -> str:
        """Return the module and the name of the pattern, or the line if it has no name."""
        return f"{self.file}:{self.name or self.line}"


@dataclass(slots=True)
class Collector:
    """The different patterns that were compiled by files under src/memolog."""

    found: dict[tuple[str, int, str, int], Found] = field(default_factory=dict[tuple[str, int, str, int], Found])

    def take(self, pattern: re.Pattern[Any], file: str, line: int) -> None:
        """Store a pattern if a module of the library compiled it."""
        path = Path(file)
        if not path.is_relative_to(SOURCE) or not isinstance(pattern.pattern, str):
            return
        key = (file, line, pattern.pattern, pattern.flags)
        if key not in self.found:
            name, methods = used(path, line)
            self.found[key] = Found(
                pattern=pattern, file=str(path.relative_to(SOURCE)), line=line, name=name, methods=methods
            )

    def patterns(self) -> list[Found]:
        """Return the patterns in order. Of each source line only the longest are returned, because they have the most pieces."""
        places: dict[tuple[str, int], list[Found]] = {}
        for found in self.found.values():
            places.setdefault((found.file, found.line), []).append(found)
        return [
            found
            for _, those in sorted(places.items())
            for found in sorted(those, key=lambda one: -len(one.pattern.pattern))[:MOST_OF_A_PLACE]
        ]


@contextmanager
def collected() -> Generator[Collector]:
    """Collect every pattern that is compiled inside the block, also by `re.sub` and similar functions with a string."""
    collector = Collector()
    kept: Callable[..., re.Pattern[Any]] = vars(re)["_compile"]

    def compile_and_take(pattern: Any, flags: int) -> re.Pattern[Any]:
        made = kept(pattern, flags)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in {"re", "functools"}:
            frame = frame.f_back
        if frame is not None:
            collector.take(made, frame.f_code.co_filename, frame.f_lineno)
        return made

    setattr(re, "_compile", compile_and_take)  # noqa: B010 - a private name, that the checker would not let us set
    try:
        yield collector
    finally:
        setattr(re, "_compile", kept)  # noqa: B010


def import_all() -> None:
    """Import every module of the library again."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "memolog"]:
        del sys.modules[name]
    for module in pkgutil.walk_packages([str(SOURCE)], "memolog.", onerror=lambda _: None):
        if not module.name.endswith("__main__"):
            # The library of this adapter is not installed, so its patterns cannot be used.
            with suppress(ImportError):
                importlib.import_module(module.name)


def run_tests() -> None:
    """Run the tests that make further patterns."""
    import pytest

    with redirect_stdout(sys.stderr):
        pytest.main(
            ["-q", "-x", "--no-header", "--rootdir", str(TESTS.parent), *(str(TESTS / each) for each in REPRESENTATIVE)]
        )


@cache
def used(path: Path, line: int) -> tuple[str, tuple[str, ...]]:
    """Return the name of the pattern of this line, and the methods that are called on it.

    If a pattern has no name, or is passed to other code, all methods are returned.
    """
    tree = _tree(path)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    for call in calls:
        match call.func:
            case ast.Attribute(value=ast.Name(id="re"), attr=str(method)) if method in METHODS:
                return "", (method,)
            case ast.Attribute(value=ast.Call(func=ast.Attribute(value=ast.Name(id="re"))), attr=str(method)) if (
                method in METHODS
            ):
                return "", (method,)
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if (
                node.lineno <= line <= (node.end_lineno or node.lineno)
            ):
                return name, _called(tree, name) or ("search", "sub")
            case _:
                pass
    return "", ("search", "sub")


def _called(tree: ast.Module, name: str) -> tuple[str, ...]:
    """Return the methods that are called on a name, or on its items in a loop. Empty if the name is passed to other code."""
    names, reads = {name}, 0
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            is_listed, is_table = _loops_over(node.iter, name)
            reads -= is_listed
            if is_listed or is_table:
                names |= {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
        reads += isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    found = [
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
    ]
    is_known = sum(by == name for by, _ in found) == reads
    return _different([method for _, method in found if method in METHODS]) if is_known else ()


def _loops_over(iterated: ast.expr, name: str) -> tuple[bool, bool]:
    """Return whether a loop iterates over the name or a list that contains it, and whether over its `items()` or `values()`."""
    match iterated:
        case ast.Name(id=found):
            return found == name, False
        case ast.Tuple(elts=listed) | ast.List(elts=listed):
            return any(isinstance(one, ast.Name) and one.id == name for one in listed), False
        case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr="items" | "values")):
            return False, found == name
        case _:
            return False, False


def _different(methods: Sequence[str]) -> tuple[str, ...]:
    """Return one method for each kind of work: match at one position, match to the end, find the first hit, find every hit."""
    every = [method for method in methods if method in {"sub", "split", "findall", "finditer"}][:1]
    first = ["search"] if "search" in methods else ["match"] if "match" in methods else []
    return (*every, *first, *(["fullmatch"] if "fullmatch" in methods else []))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


# ---------------------------------------------------------------- texts that hurt

Pumped = tuple[str, str]
"""The text before a piece, and the piece that is repeated."""


def texts_for(pattern: re.Pattern[Any], *, seed: int = 1) -> list[tuple[str, str, str]]:
    """Return (before, piece, after) of texts that may be slow for a pattern. `piece` is repeated.

    There are three kinds of pieces: texts that a repetition of the pattern matches, after the text that it needs before them;
    beginnings of the pattern, which start a match that fails; and characters that many patterns contain.
    """
    tree = vars(re)["_parser"].parse(pattern.pattern, pattern.flags)
    pumps = list(dict.fromkeys(Pieces(random.Random(seed)).pumps(tree)))
    ends = ("\x00", "", "\n\x00")
    made = [(before, piece, end) for before, piece in pumps for end in ends[:2]]
    made += [("", before + piece, ends[0]) for before, piece in pumps if before]
    made += [
        (before, piece, ends[0])
        for before in dict.fromkeys(before for before, _ in pumps if before)
        for piece in ("\n", " ", "a")
    ]
    made += [("", before, end) for before in dict.fromkeys(before for before, _ in pumps if before) for end in ends[:1]]
    made = list(dict.fromkeys(made))
    chance = random.Random(seed)
    if len(made) > MOST_TEXTS:
        made = chance.sample(made, MOST_TEXTS)
    return made + [("", piece, ends[0]) for piece in GENERIC]


class Pieces:
    """Makes sample texts for the parts of a parsed pattern."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._groups: dict[int, str] = {}

    def pumps(self, tree: Any, before: str = "") -> Iterator[Pumped]:  # noqa: C901 - one case for each kind of node
        """Yield texts that may be repeated, each with the text that must precede it."""
        for op, value in tree:
            kind = str(op)
            if kind in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
                _, most, item = value
                yield from self.pumps(item, before)
                if most >= LONG_REPEAT:
                    for _ in range(MOST_SAMPLES):
                        yield before, self.sample(item) or " "
            elif kind == "SUBPATTERN":
                yield from self.pumps(value[3], before)
            elif kind == "ATOMIC_GROUP":
                yield from self.pumps(value, before)
            elif kind == "BRANCH":
                for branch in value[1]:
                    yield from self.pumps(branch, before)
            elif kind in {"ASSERT", "ASSERT_NOT"}:
                yield from self.pumps(value[1], before)
            before = (before + self.sample([(op, value)]))[-LONGEST_SAMPLE:]
            if before and kind not in {"AT", "ASSERT", "ASSERT_NOT"}:
                # The beginning of a pattern: a match starts at each repetition.
                yield "", before

    def sample(self, tree: Any) -> str:
        """Return a text that the tree matches. Lookaheads and lookbehinds are ignored."""
        text = ""
        for op, value in tree:
            text += self._one(str(op), value)
            if len(text) > LONGEST_SAMPLE:
                break
        return text[:LONGEST_SAMPLE]

    def _one(self, kind: str, value: Any) -> str:  # noqa: C901, PLR0911 - one case for each kind of node
        match kind:
            case "LITERAL":
                return chr(value)
            case "NOT_LITERAL":
                return "b" if value == ord("a") else "a"
            case "ANY":
                return "a"
            case "IN":
                return self._member(value)
            case "BRANCH":
                return self.sample(self._chance.choice(value[1]))
            case "SUBPATTERN":
                text = self.sample(value[3])
                if value[0] is not None:
                    self._groups[value[0]] = text
                return text
            case "ATOMIC_GROUP":
                return self.sample(value)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, item = value
                times = least if least or most < 1 else self._chance.choice((0, 1))
                return "".join(self.sample(item) for _ in range(min(times, 50)))
            case "GROUPREF":
                return self._groups.get(value, "")
            case "GROUPREF_EXISTS":
                return self.sample(value[1])
            case _:
                return ""

    def _member(self, members: Sequence[tuple[Any, Any]]) -> str:
        """Return a character of a class."""
        if str(members[0][0]) == "NEGATE":
            expression = _class(members)
            return self._chance.choice([char for char in "a b1A-\n\t.\"'<(é日\x00" if expression(char)] or ["\ufffd"])
        op, value = self._chance.choice(members)
        match str(op):
            case "LITERAL":
                return chr(value)
            case "RANGE":
                return chr(self._chance.randint(*value))
            case _:
                return _CATEGORIES.get(str(value), "a")


_CATEGORIES: Final = {
    "CATEGORY_DIGIT": "1", "CATEGORY_NOT_DIGIT": "a", "CATEGORY_SPACE": " ", "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_WORD": "a", "CATEGORY_NOT_WORD": "-",
}  # fmt: skip
_TESTS: Final[dict[str, Callable[[str], bool]]] = {
    "CATEGORY_DIGIT": str.isdigit,
    "CATEGORY_NOT_DIGIT": lambda char: not char.isdigit(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda char: not char.isspace(),
    "CATEGORY_WORD": lambda char: char.isalnum() or char == "_",
    "CATEGORY_NOT_WORD": lambda char: not (char.isalnum() or char == "_"),
}


def _class(members: Sequence[tuple[Any, Any]]) -> Callable[[str], bool]:
    """Return whether a character is in a negated class."""

    def holds(char: str) -> bool:
        for op, value in members[1:]:
            match str(op):
                case "LITERAL" if ord(char) == value:
                    return False
                case "RANGE" if value[0] <= ord(char) <= value[1]:
                    return False
                case "CATEGORY" if _TESTS[str(value)](char):
                    return False
                case _:
                    pass
        return True

    return holds


def pumped(before: str, piece: str, after: str, size: int) -> str:
    """Return a text of about this many characters."""
    return before + piece * max(1, (size - len(before) - len(after)) // max(1, len(piece))) + after


# ---------------------------------------------------------------- judging


class TooLong(Exception):
    """A measurement took too long."""


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """Raise TooLong after this much processor time. The engine of `re` checks for signals while it works.

    The timer uses real time, because a timer of processor time makes the clock of processor time less exact on some systems.
    """
    began = process_time()

    def give_up(*_: object) -> None:
        if process_time() - began < seconds:
            # Other processes used the processor, so the limit is not reached yet.
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return
        raise TooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(pattern: re.Pattern[Any], method: str, text: str) -> None:
    """Use a pattern as its module does."""
    match method:
        case "sub":
            pattern.sub("", text)
        case "finditer":
            for _ in pattern.finditer(text):
                pass
        case _:
            getattr(pattern, method)(text)


def seconds_of(pattern: re.Pattern[Any], method: str, text: str, rounds: int = 1) -> float:
    """Return the best processor time of several rounds. Infinity if a round took too long."""
    best = float("inf")
    for _ in range(rounds):
        try:
            with at_most(MOST_SECONDS):
                began = process_time()
                run(pattern, method, text)
                best = min(best, process_time() - began)
        except TooLong:
            return float("inf")
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Guilt:
    """The times of a pattern on its slowest text."""

    found: Found
    method: str
    text: tuple[str, str, str]
    small: float
    large: float

    @property
    def growth(self) -> float:
        """Return how many times longer a ten times longer text takes."""
        return self.large / self.small if self.small < float("inf") else float("inf")


def judge(found: Found) -> Guilt | None:
    """Return the first text for which a pattern takes too long. None if there is none."""
    texts = texts_for(found.pattern)
    return next(
        (guilt for method in found.methods for text in texts if (guilt := _judge_text(found, method, text))), None
    )


def _judge_text(found: Found, method: str, text: tuple[str, str, str]) -> Guilt | None:
    def taken(size: int, rounds: int = 1) -> float:
        return seconds_of(found.pattern, method, pumped(*text, size), rounds)

    # Shorter texts are enough for most patterns: a linear one takes three times as long for a three times longer text.
    if (little := taken(SMALL // 10)) == float("inf") or (small := taken(SMALL)) == float("inf"):
        return Guilt(found=found, method=method, text=text, small=float("inf"), large=float("inf"))
    if (more := taken(3 * SMALL)) < max(LEAST_SECONDS / 20, small * 4) or little == float("inf"):
        return None
    if more < float("inf"):
        small = taken(SMALL, ROUNDS)
    large = taken(LARGE, ROUNDS)
    if large < LEAST_SECONDS or large <= small * GROWTH:
        return None
    if large < float("inf"):
        # Measure again, because other load may have slowed down one of the two measurements.
        small, large = min(small, taken(SMALL, ROUNDS)), min(large, taken(LARGE, ROUNDS))
        if large <= small * GROWTH:
            return None
    return Guilt(found=found, method=method, text=text, small=small, large=large)


def shown(text: str) -> str:
    """Return a text as a short literal."""
    return ascii(text) if len(text) <= 24 else f"{text[:12]!a}…({len(text)})"


def main() -> int:
    """Collect, judge, and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description="Find patterns that take more than linear time.")
    parser.add_argument("--no-tests", action="store_true", help="only patterns that are compiled on import")
    parser.add_argument("--only", default="", help="only places that contain this")
    given = parser.parse_args()
    with collected() as collector:
        # The tests run first, because pytest must load its plugins before other code imports them.
        if not given.no_tests:
            run_tests()
        import_all()
    patterns = [found for found in collector.patterns() if given.only in found.place]
    guilty: list[Guilt] = []
    for found in patterns:
        if guilt := judge(found):
            print(f"guilty: {guilt.found.place}:{guilt.found.line}", file=sys.stderr, flush=True)
            guilty.append(guilt)
    rows = [
        [
            guilt.found.place,
            guilt.method,
            guilt.small * 1_000,
            guilt.large * 1_000,
            guilt.growth,
            *map(shown, guilt.text),
        ]
        for guilt in sorted(guilty, key=lambda one: -one.large)
    ]
    print(table(["pattern", "method", "10 kB ms", "100 kB ms", "growth", "before", "piece", "after"], rows))
    print(f"\n{len(patterns)} patterns, {len(guilty)} guilty\n")
    print(json.dumps({"patterns": len(patterns), "guilty": [guilt.found.place for guilt in guilty]}))
    return 1 if guilty else 0


if __name__ == "__main__":
    sys.exit(main())
