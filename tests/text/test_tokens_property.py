"""Properties of counting and cutting, over texts that are rich in joined characters."""

import itertools
from typing import Any

import regex
from hypothesis import given
from hypothesis import strategies as st

from memolog.core.message import FilePart, TextPart, ToolCallPart, ToolResultPart, UnknownPart
from memolog.core.run import Calibration
from memolog.text.cutting import cut, cut_end, cut_middle, cut_tokens, is_boundary
from memolog.text.message_tokens import count_message, count_parts, count_tool_schemas, image_size, image_tokens
from memolog.text.tokens import HeuristicCounter, calibrated, learn

JOINING = (
    "a\r\n\t \u00ad\u0300\u0301\u0903\u093f\u0915\u0937\u094d\u0bcd\u0e33\u0600\u06dd\u0d4e"
    "\u200b\u200c\u200d\u1100\u1161\u11a8\uac00\uac01\ua960\ud7b0\ud7cb"
    "\u2764\ufe0f\u20e3\u00a9\u4e2d\u302a\uff9e\u1039\u1000"
    "\U0001f1e6\U0001f1ff\U0001f469\U0001f680\U0001f3fd\U0001f3f4\U000e0067\U000e007f"
    "\U000e0001\ud83d\ude00"
    "\U000110bd\U00011f02\U00016d63\U0001e4ec\U00020000\U00031350\U0001fae8\U000e0100\uffff\ue000"
)
texts = st.text(alphabet=st.one_of(st.sampled_from(JOINING), st.characters()), max_size=40)
limits = st.integers(min_value=-2, max_value=45)


def standard_boundaries(text: str) -> set[int]:
    """Return the boundaries that the `regex` package finds."""
    return {0, *itertools.accumulate(len(piece) for piece in regex.findall(r"\X", text))}


@given(texts)
def test_every_boundary_is_one_of_the_standard(text: str) -> None:
    """We may be more cautious than UAX #29, never less."""
    ours = {index for index in range(len(text) + 1) if is_boundary(text, index)}
    assert ours <= standard_boundaries(text)
    assert {0, len(text)} <= ours


def test_no_character_of_unicode_is_torn_off() -> None:
    """Each code point beside a letter, a mark, a jamo and itself has no boundary of our own."""
    # Ideographs and Hangul syllables are alike, and whole planes hold nothing.
    tried = (range(0x300, 0x3400), range(0xA000, 0xAC20), range(0xD7A0, 0xE010), range(0xF900, 0x17000))
    for point in itertools.chain(*tried, range(0x1B000, 0x20010), range(0xE0000, 0xE0200)):
        char = chr(point)
        text = f"a{char}{char}\u0300\n\u1100{char}\u1161\n\U0001f469\u200d{char}a"
        ours = {index for index in range(len(text) + 1) if is_boundary(text, index)}
        assert ours <= standard_boundaries(text), hex(point)


def test_no_conjunct_is_torn() -> None:
    """Every consonant and linker that Unicode names stays together (rule GB9c)."""
    consonants = regex.findall(r"\p{InCB=Consonant}", "".join(map(chr, range(0x900, 0x12000))))
    linkers = regex.findall(r"\p{InCB=Linker}", "".join(map(chr, range(0x900, 0x12000))))
    assert len(linkers) >= 6
    for consonant, linker in itertools.product(consonants, linkers):
        assert not is_boundary(consonant + linker + consonant, 2)
        assert not is_boundary(consonant + linker + "\u0301\u200c" + consonant, 4)


# Printable ASCII, kana, ideographs and syllables of Hangul.
PLAIN = [range(0x20, 0x7F), range(0x3041, 0x3097), range(0x4E00, 0xA000), range(0xAC00, 0xD7A4)]


@given(st.sampled_from(PLAIN).flatmap(lambda points: st.text(alphabet=[*map(chr, points)])))
def test_plain_text_may_be_cut_anywhere(text: str) -> None:
    """Caution must not cost anything where characters stand alone."""
    assert all(is_boundary(text, index) for index in range(len(text) + 1))


@given(texts, limits)
def test_a_cut_is_the_longest_that_fits(text: str, limit: int) -> None:
    """A prefix within the limit, at our last boundary; torn only where there is none."""
    piece = cut(text, limit)
    room = max(limit, 0)
    inner = [index for index in range(1, min(room, len(text)) + 1) if is_boundary(text, index)]
    assert text.startswith(piece)
    assert len(piece) == inner[-1] if inner else min(room, len(text)) - len(piece) in {0, 1}


@given(texts, limits)
def test_a_cut_from_the_end_is_the_longest_that_fits(text: str, limit: int) -> None:
    """A suffix within the limit, at our first boundary; torn only where there is none."""
    piece = cut_end(text, limit)
    room = max(limit, 0)
    first = max(len(text) - room, 0)
    inner = [index for index in range(first, len(text)) if is_boundary(text, index)]
    assert text.endswith(piece)
    assert len(text) - len(piece) == inner[0] if inner else min(room, len(text)) - len(piece) in {0, 1}


@given(texts, limits)
def test_cuts_never_split_a_surrogate_pair(text: str, limit: int) -> None:
    """Not even a torn grapheme ends in half a character."""
    for end in (len(cut(text, limit)), len(text) - len(cut_end(text, limit))):
        around = text[max(end - 1, 0) : end + 1]
        assert not ("\ud800" <= around[:1] <= "\udbff" and "\udc00" <= around[1:] <= "\udfff")


@given(texts, limits, st.sampled_from(["…", "", " ... "]))
def test_the_middle_cut_keeps_the_limit(text: str, limit: int, mark: str) -> None:
    """A text that fits is untouched, any other is a head and a tail within the limit."""
    piece = cut_middle(text, limit, mark)
    assert piece == text if len(text) <= limit else len(piece) <= max(limit, 0)
    pairs = (piece[:end] + "|" + piece[end + len(mark) :] for end in range(len(piece) + 1))
    heads = (pair.partition("|") for pair in [*pairs, piece + "|"] if pair.count("|") == 1)
    assert any(text.startswith(head) and text.endswith(tail) for head, _, tail in heads) or "|" in text


@given(texts, st.integers(min_value=-1, max_value=30))
def test_a_cut_by_tokens_keeps_the_budget(text: str, tokens: int) -> None:
    """Never more tokens than allowed, always a prefix, and the whole text if it fits."""
    counter = HeuristicCounter()
    piece = cut_tokens(text, tokens, counter)
    assert text.startswith(piece)
    assert counter.count(piece) <= max(tokens, 0)
    assert piece == text or counter.count(text) > tokens


@given(texts, texts)
def test_the_heuristic_grows_with_the_text(left: str, right: str) -> None:
    """More text is never fewer tokens, and parts are never fewer than the whole."""
    counter = HeuristicCounter()
    both = counter.count(left + right)
    assert max(counter.count(left), counter.count(right)) <= both
    assert both <= counter.count(left) + counter.count(right)
    assert (both == 0) == (left + right == "")


class Hostile:
    """Raises whenever it is looked at."""

    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __str__(self) -> str:
        raise RuntimeError


def cyclic() -> list[object]:
    """Return a list that holds itself."""
    value: list[object] = []
    value.append(value)
    return value


def deep() -> object:
    """Return a value nested beyond the recursion limit."""
    value: object = "end"
    for _ in range(5_000):
        value = [value]
    return value


ODD = [10**5000, 1j, ..., object(), Hostile, cyclic(), deep(), bytearray(b"x"), memoryview(b"x"), range(3), {1, 2}, len]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary(max_size=40)
    | st.builds(Hostile)
    | st.integers(0, len(ODD) - 1).map(lambda number: ODD[number]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.integers(), inner, max_size=4),
    max_leaves=12,
)
media = st.sampled_from(["image/png", "application/pdf", "audio/wav", "video/mp4", "text/plain", "x", ""]) | texts
files = st.builds(
    FilePart,
    media_type=media | anything,  # pyright: ignore[reportArgumentType]
    data=anything,  # pyright: ignore[reportArgumentType]
    url=st.none() | texts.map(lambda text: "data:image/png;base64," + text),
    width=anything,  # pyright: ignore[reportArgumentType]
    pages=anything,  # pyright: ignore[reportArgumentType]
    seconds=anything,  # pyright: ignore[reportArgumentType]
)
parts = st.one_of(
    files,
    st.builds(TextPart, text=anything),  # pyright: ignore[reportArgumentType]
    st.builds(UnknownPart, data=anything),
    st.builds(ToolCallPart, id=texts, name=texts, arguments=anything),
    st.builds(ToolResultPart, call_id=texts, content=anything, files=st.tuples(files)),
    anything,
)


@given(anything, st.lists(parts, max_size=4))
def test_no_part_stops_the_count(role: object, odd: list[object]) -> None:
    """Whatever is handed in yields a number of tokens."""
    count = count_parts(role, odd, HeuristicCounter())  # pyright: ignore[reportArgumentType]
    assert type(count) is int
    assert count >= 4


@given(anything)
def test_no_argument_stops_the_count(odd: Any) -> None:
    """Not even messages, roles, lists of parts, schemas or counters of a wrong kind raise."""
    part, counter = TextPart(text="a text"), HeuristicCounter()
    assert count_message(odd, counter) > 0
    assert count_parts(odd, [part], counter) > 4
    assert count_parts("user", odd, counter) >= 4
    assert count_parts("user", [part], odd) >= 4
    assert count_tool_schemas(odd, counter) >= 0
    assert count_tool_schemas([odd], counter) >= 12


@given(
    st.sampled_from(
        [
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            b"\xff\xd8\xff",
            b"GIF89a",
            b"RIFF....WEBPVP8",
            b"BM",
            b"",
        ]
    ),
    st.binary(max_size=60),
)
def test_no_header_stops_the_reader(head: bytes, tail: bytes) -> None:
    """A size is two positive numbers or unknown."""
    size = image_size(head + tail)
    assert size is None or min(size) > 0


@given(st.integers(), st.integers())
def test_no_image_costs_more_than_an_unknown_one(width: int, height: int) -> None:
    """The maximum of the rule is one."""
    assert 0 < image_tokens(width, height) <= image_tokens(None, None)


@given(st.lists(st.tuples(st.integers(), st.integers())), st.integers(0, 10**7))
def test_a_factor_stays_within_its_bounds(requests: list[tuple[int, int]], tokens: int) -> None:
    """Whatever is reported, thresholds move by a factor of four at most."""
    calibration = Calibration(model="m")
    for counted, reported in requests:
        calibration = learn(calibration, counted, reported)
    assert 0.25 <= calibration.factor <= 4
    assert tokens // 4 <= calibrated(calibration.factor, tokens) <= 4 * tokens
