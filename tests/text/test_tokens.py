"""Token counts of texts, messages, files and images, and their calibration by the numbers that providers report."""

import base64
import math
import struct
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.strategies import texts
from memolog.core.message import (
    AssistantMessage,
    FilePart,
    NewMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnknownPart,
    UserMessage,
)
from memolog.core.run import Calibration
from memolog.errors import ConfigError
from memolog.text.message_tokens import (
    count_file,
    count_message,
    count_parts,
    count_tool_schemas,
    image_size,
    image_tokens,
)
from memolog.text.tokens import HeuristicCounter, SplintrCounter, _tokenizer, calibrated, learn, over_estimate

HEURISTIC = HeuristicCounter()
CHINESE = "记忆日志为人工智能代理提供长期记忆：它把观察写成带日期的日志，并保留每一条原始消息以便日后查找。"


# ---------------------------------------------------------------- counters


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fives", 2),
        ("é" * 4, 2),
        ("日", 1),
        ("日本語", 3),
        ("\ud800", 1),
    ],
)
def test_the_heuristic_is_a_quarter_of_the_bytes(text: str, tokens: int) -> None:
    """The count is a quarter of the bytes, rounded up. Only the empty text has no tokens."""
    assert HEURISTIC.count(text) == tokens


@pytest.mark.parametrize("text", [CHINESE, CHINESE * 20, "今天天气很好，我们去公园散步吧。"])
def test_chinese_is_not_under_counted(text: str) -> None:
    """The heuristic count is between 0.9 and 1.6 times the exact count."""
    exact = SplintrCounter().count(text)
    assert 0.9 * exact <= HEURISTIC.count(text) <= 1.6 * exact
    assert len(text) // 4 < 0.6 * exact


def test_the_exact_counter_counts_known_texts() -> None:
    """The counts of o200k are known for these texts. A control word counts as plain text."""
    counter = SplintrCounter()
    assert counter.count("") == 0
    assert counter.count("Hello, world!") == 4
    assert counter.count("<|endoftext|>") > 1


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude00"])
def test_the_exact_counter_takes_surrogates(text: str) -> None:
    """A lone surrogate is counted, and a pair counts as the character that it encodes."""
    assert SplintrCounter().count(text) >= 1
    assert SplintrCounter().count("\ud83d\ude00") == SplintrCounter().count("\U0001f600")


def test_an_unknown_counter_is_a_config_error() -> None:
    """The error names the unknown vocabulary and the known ones."""
    with pytest.raises(ConfigError, match=r"'nonsense'.*o200k_base.*HeuristicCounter"):
        SplintrCounter(vocabulary="nonsense")


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error contains the command that installs the package."""
    monkeypatch.setitem(sys.modules, "splintr", None)
    _tokenizer.cache_clear()
    with pytest.raises(ConfigError, match=r'pip install "memolog\[tokens\]"'):
        SplintrCounter()


# ---------------------------------------------------------------- images


def png(width: int, height: int) -> bytes:
    """Return the head of a PNG."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"


def jpeg(width: int, height: int) -> bytes:
    """Return the head of a progressive JPEG behind large metadata, padding and a table."""
    metadata = b"\xff\xe1" + struct.pack(">H", 60_002) + b"\xff\xc0" * 30_000
    table = b"\xff\xff\xff\xc4" + struct.pack(">H", 4) + b"\0\0"
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width)
    return b"\xff\xd8" + metadata + table + frame


def webp(kind: bytes, body: bytes) -> bytes:
    """Return the head of a WebP with one chunk."""
    return b"RIFF\0\0\0\0WEBP" + kind + struct.pack("<I", len(body)) + body


IMAGES = {
    "png": png(640, 480),
    "jpeg": jpeg(640, 480),
    "gif": b"GIF89a" + struct.pack("<HH", 640, 480),
    "webp VP8": webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640 | 1 << 14, 480)),
    "webp VP8L": webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14)),
    "webp VP8X": webp(b"VP8X", b"\0\0\0\0" + struct.pack("<HBHB", 639, 0, 479, 0)),
    "bmp": b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, 640, -480),
    "bmp core": b"BM" + b"\0" * 12 + struct.pack("<IHH", 12, 640, 480),
}


@pytest.mark.parametrize("data", IMAGES.values(), ids=IMAGES.keys())
def test_sizes_are_read_from_headers(data: bytes) -> None:
    """The width and height of every format are read. A header that is cut short gives None and no error."""
    assert image_size(data) == (640, 480)
    assert all(image_size(data[:length]) is None for length in range(min(len(data) - 6, 300)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8",
        b"\xff\xd8\xff\xda\0\0",
        b"\xff\xd8\0\0",
        b"\xff\xd8" + b"\xff" * 9000,
        png(0, 5),
        b"II*\0",
    ],
)
def test_unreadable_sizes_are_unknown(data: bytes) -> None:
    """No bytes, broken segments, endless padding, a side of zero and other formats give None."""
    assert image_size(data) is None


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1, 1, 255), (385, 10, 255), (512, 512, 255), (1024, 1024, 765), (2048, 4096, 1105), (4000, 3000, 765)],
)
def test_images_cost_what_the_rules_say(width: int, height: int, tokens: int) -> None:
    """The counts are those of the provider's page. An image of low detail has the same count at any size."""
    assert image_tokens(width, height) == tokens
    assert image_tokens(width, height, is_low=True) == 85


@pytest.mark.parametrize("sides", [(None, None), (0, 5), (-3, 4), (math.nan, 1), (True, True), ("9", 9)])
def test_an_unknown_size_costs_the_most(sides: tuple[object, object]) -> None:
    """An image of unknown size has the maximum count."""
    assert image_tokens(*sides) == 85 + 8 * 170


# ---------------------------------------------------------------- files


def pdf(pages: int) -> bytes:
    """Return bytes in which the page counter finds this many pages."""
    return b"%PDF-1.7 /Type /Pages /Count 9" + b" /Type/Page " * pages


def url(media_type: str, data: bytes) -> str:
    """Return a `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


FILES: list[tuple[FilePart, int]] = [
    (FilePart(media_type="image/png", data=png(1000, 1000)), 765),
    (FilePart(media_type="image/png", url=url("image/png", png(1000, 1000))), 765),
    (FilePart(media_type="IMAGE/PNG; q=1", data=png(9, 9), width=1024, height=1024), 765),
    (FilePart(media_type="image/png", data=png(1000, 1000), detail="low"), 85),
    (FilePart(media_type="image/png", url="https://example.com/a.png"), 1445),
    (FilePart(media_type="image/png", url="data:image/png;base64,%%%"), 1445),
    (FilePart(media_type="application/pdf", pages=3), 3 * 1_765),
    (FilePart(media_type="application/pdf", data=pdf(4)), 4 * 1_765),
    (FilePart(media_type="application/pdf", data=b"x" * 90_001), 4 * 1_765),
    (FilePart(media_type="application/pdf", pages=10**30), 1000 * 1_765),
    (FilePart(media_type="application/pdf", url="https://example.com"), 25 * 1_765),
    (FilePart(media_type="audio/mpeg", seconds=10.5), 105),
    (FilePart(media_type="audio/mpeg", data=b"x" * 40_000), 100),
    (FilePart(media_type="audio/mpeg", seconds=math.nan), 3_000),
    (FilePart(media_type="video/mp4", seconds=2), 590),
    (FilePart(media_type="video/mp4", seconds=-2), 300 * 295),
    (FilePart(media_type="text/markdown", data=b"four" * 25), 25),
    (FilePart(media_type="application/json", data=b'{"a":"\xff"}'), 3),
    (FilePart(media_type="application/vnd.api+json", url="data:,%7B%7D%7B%7D"), 1),
    (FilePart(media_type="text/plain", url="https://example.com/a.txt"), 20_000),
    (FilePart(media_type="application/zip", data=b"x" * 300), 100),
    (FilePart(media_type="application/zip", data=b"x" * 10**6), 20_000),
    # Providers show the name to the model.
    (FilePart(media_type="application/zip", data=b"abc", name="notes.txt"), 3 + 1),
]


@pytest.mark.parametrize(("part", "tokens"), FILES)
def test_files_cost_what_the_rules_say(part: FilePart, tokens: int) -> None:
    """A file is counted by its size, pages, seconds or text, plus four tokens for the wrapping."""
    assert count_file(part, HEURISTIC) == tokens + 4


# ---------------------------------------------------------------- messages


IMAGE = FilePart(media_type="image/png", width=1000, height=1000)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage("four" * 10), 10),
        (UserMessage(""), 0),
        (UserMessage("four", speaker="Marie"), 1 + 1 + 2),
        (AssistantMessage(ToolCallPart(id="c", name="read", arguments={"path": "a.py"})), 10 + 1 + 4),
        # Providers differ in how they send arguments, not in what they cost.
        (AssistantMessage(ToolCallPart(id="c", name="read", arguments='{"path":"a.py"}')), 10 + 1 + 4),
        (ToolMessage("c", "x" * 40_000), 8 + 10_000),
        (ToolMessage("c", {"a": [1, 2]}, name="read"), 8 + 1 + 3),
        (NewMessage(role="tool", parts=(ToolResultPart(call_id="c", files=(IMAGE, IMAGE)),)), 8 + 2 * (765 + 4)),
    ],
)
def test_messages_cost_what_the_rules_say(message: NewMessage, tokens: int) -> None:
    """A message has three tokens, and one for its role. Arguments and results count as text or JSON, files by their rule."""
    assert count_message(message, HEURISTIC) == 4 + tokens


def test_opaque_reasoning_counts_by_its_length() -> None:
    """A blob counts by its length, because an exact counter would give far more tokens than the provider charges."""
    blob = base64.b64encode(bytes(range(256)) * 16).decode()
    part = ReasoningPart(text="four", signature="s" * 9, encrypted=blob)
    tokens = 4 + 1 + 3 + math.ceil(len(blob) / 4)
    assert count_parts("assistant", [part], HEURISTIC) == tokens
    assert count_parts("assistant", [part], SplintrCounter()) <= tokens


def test_schemas_count_as_json() -> None:
    """Each description counts as JSON with its wrapping. Without tools the count is zero."""
    schema = {"name": "read", "parameters": {"type": "object"}}
    assert count_tool_schemas([], HEURISTIC) == 0
    assert count_tool_schemas([schema], HEURISTIC) == 12 + 8 + 12
    assert count_tool_schemas([schema] * 3, HEURISTIC) == 12 + 3 * 20


# ---------------------------------------------------------------- what is not understood


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPart:
    """A kind of part that this release does not know."""

    text: str
    type: str = "new"


class Broken:
    """A counter that always fails."""

    def count(self, text: str) -> int:
        raise OSError


def test_what_is_not_understood_is_over_estimated() -> None:
    """Unknown parts, unknown classes and failing counters give a higher count than the same text."""
    text = "plain words " * 100
    plain = count_parts("user", [TextPart(text=text)], HEURISTIC)
    assert count_parts("user", [UnknownPart(data={"text": text})], HEURISTIC) > plain
    assert count_parts("user", [NewPart(text=text)], HEURISTIC) > plain  # pyright: ignore[reportArgumentType]
    assert count_parts("user", [TextPart(text=text)], Broken()) > plain
    assert over_estimate({"nested": [{"text": text}]}) > plain


def test_a_wide_unknown_part_is_counted_to_its_end() -> None:
    """A value of many items is measured by the whole of its JSON."""
    wide = UnknownPart(data=list(range(100_000, 400_000)))
    assert count_parts("user", [wide], HEURISTIC) >= 300_000 * 7 // 3


# ---------------------------------------------------------------- calibration


@pytest.mark.parametrize(
    ("factor", "samples", "counted", "reported", "expected"),
    [
        pytest.param(1.0, 0, 1000, 1500, 1.5, id="the first report"),
        pytest.param(1.5, 1, 1000, 1300, 1.4, id="the second weighs as much"),
        pytest.param(1.0, 50, 1, 10**9, 1.3, id="a later outlier is clamped and weighs a tenth"),
        pytest.param(1.0, 50, 10**9, 1, 0.925, id="also one that is too small"),
        pytest.param(math.nan, 0, 100, 200, 2.0, id="a stored factor that is no number is replaced"),
    ],
)
def test_a_report_moves_the_factor(factor: float, samples: int, counted: int, reported: int, expected: float) -> None:
    """The first requests have equal weight. Later, a single request changes the factor little."""
    learned = learn(Calibration(model="m", factor=factor, samples=samples), counted, reported)
    assert learned.factor == pytest.approx(expected)
    assert (learned.model, learned.samples) == ("m", samples + 1)


def test_a_factor_converges_and_follows() -> None:
    """The factor approaches the average of varying reports, and follows a lasting change."""
    calibration = Calibration(model="m")
    for step in range(100):
        calibration = learn(calibration, 1000, 1200 + (100 if step % 2 else -100))
    assert calibration.factor == pytest.approx(1.2, abs=0.02)
    for _ in range(40):
        calibration = learn(calibration, 1000, 800)
    assert calibration.factor == pytest.approx(0.8, abs=0.02)
    assert calibration.samples == 140


@pytest.mark.parametrize(
    ("counted", "reported"),
    [(0, 5), (5, 0), (-1, 5), (5, -1), (10**400, 1), (math.nan, 1), (1, math.inf)],
)
def test_nonsense_teaches_nothing(counted: int, reported: int) -> None:
    """Zero, negative and impossible numbers do not change the calibration."""
    calibration = Calibration(model="m", factor=1.2, samples=3)
    assert learn(calibration, counted, reported) is calibration


@pytest.mark.parametrize(
    ("factor", "tokens", "expected"),
    [
        (1.0, 7, 7),
        (1.1, 10, 11),
        (1.5, 3, 5),
        (0.5, 3, 2),
        (9.0, 10, 40),
        (0.01, 100, 25),
        (math.nan, 7, 7),
        (0.0, 7, 7),
        (-1.0, 7, 7),
        (math.inf, 7, 7),
        (2.0, -5, 0),
    ],
)
def test_a_factor_is_applied_rounding_up(factor: float, tokens: int, expected: int) -> None:
    """The factor is limited and the result rounded up. An invalid factor counts as 1."""
    assert calibrated(factor, tokens) == expected


# ---------------------------------------------------------------- properties


@given(texts, texts)
def test_the_heuristic_grows_with_the_text(left: str, right: str) -> None:
    """A longer text never has fewer tokens, and two parts never have fewer tokens than the whole."""
    counter = HeuristicCounter()
    both = counter.count(left + right)
    assert max(counter.count(left), counter.count(right)) <= both
    assert both <= counter.count(left) + counter.count(right)
    assert (both == 0) == (left + right == "")


class Hostile:
    """An object whose methods raise."""

    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __str__(self) -> str:
        raise RuntimeError


def cyclic() -> list[object]:
    """Return a list that contains itself."""
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
    """Every value gives a number of tokens."""
    count = count_parts(role, odd, HeuristicCounter())  # pyright: ignore[reportArgumentType]
    assert type(count) is int
    assert count >= 4


@given(anything)
def test_no_argument_stops_the_count(odd: Any) -> None:
    """Messages, roles, lists of parts, schemas and counters of a wrong type do not raise."""
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
    """A size is two positive numbers, or None."""
    size = image_size(head + tail)
    assert size is None or min(size) > 0


@given(st.integers(), st.integers())
def test_no_image_costs_more_than_an_unknown_one(width: int, height: int) -> None:
    """No image has a higher count than an image of unknown size."""
    assert 0 < image_tokens(width, height) <= image_tokens(None, None)


@given(st.lists(st.tuples(st.integers(), st.integers())), st.integers(0, 10**7))
def test_a_factor_stays_within_its_bounds(requests: list[tuple[int, int]], tokens: int) -> None:
    """No report makes the factor smaller than a quarter or larger than four."""
    calibration = Calibration(model="m")
    for counted, reported in requests:
        calibration = learn(calibration, counted, reported)
    assert 0.25 <= calibration.factor <= 4
    assert tokens // 4 <= calibrated(calibration.factor, tokens) <= 4 * tokens
