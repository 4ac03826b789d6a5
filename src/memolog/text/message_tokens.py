"""Count the tokens of messages as a provider sees them: texts, calls, and files by their stated size or their bytes.

Never raises: a part that cannot be counted, and a file behind an address, is over-estimated. The rules for files are those of
OpenAI; `Calibration` learns how far other providers are from them. `extra` of a part is not sent to the model and not counted.
"""

import base64
import math
import re
import struct
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

from memolog.core.exact_json import JsonObject, JsonValue, dumps
from memolog.core.message import (
    ROLES,
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
from memolog.text.tokens import TokenCounter, guarded, over_estimate

# OpenAI's cookbook, "How to count tokens": three for each message, one for its role, one for a
# name. Others publish nothing; theirs are close.
_PER_MESSAGE: Final = 3
_PER_ROLE: Final = 1
_PER_NAME: Final = 1
# The id and the wrapping of a call and of its result, as the model sees them.
_PER_CALL: Final = 10
_PER_RESULT: Final = 8
# The cookbook again: what surrounds each function, and all of them.
_PER_SCHEMA: Final = 8
_PER_SCHEMAS: Final = 12
# Opaque blobs are base64, of which at most one character in four becomes a token.
_BLOB_CHARACTERS: Final = 4


def count_message(message: Message | NewMessage, counter: TokenCounter) -> int:
    """Return the tokens of a message in a request, with its speaker's name; never raises."""

    def measure() -> int:
        parts = message.parts
        if len(parts) == 1 and isinstance(parts[0], TextPart) and not message.speaker and message.role in ROLES:
            # Most messages are plain text and are counted at every save, so this path is short.
            return _PER_MESSAGE + _PER_ROLE + count_text(parts[0].text, counter)
        speaker = message.speaker
        name = _PER_NAME + count_text(speaker, counter) if speaker else 0
        return name + count_parts(message.role, message.parts, counter)

    return guarded(measure, message)


def count_parts(role: str, parts: Iterable[Part], counter: TokenCounter) -> int:
    """Return the tokens of one message of these parts in a request; never raises."""

    def measure() -> int:
        return sum(guarded(lambda part=part: _part(part, counter), part) for part in parts)

    word = guarded(lambda: 0 if role in ROLES else count_text(role, counter), role)
    return _PER_MESSAGE + max(word, _PER_ROLE) + guarded(measure, parts)


def count_text(text: object, counter: TokenCounter) -> int:
    """Return the tokens of a text, over-estimated if the counter fails or it is not a string; never raises."""
    if not isinstance(text, str):
        return over_estimate(text)
    return guarded(lambda: counter.count(text), text)


def count_tool_schemas(schemas: Iterable[JsonObject], counter: TokenCounter) -> int:
    """Return the tokens of tool descriptions in a request that offers them; never raises."""

    def measure() -> int:
        each = [_PER_SCHEMA + _json(schema, counter) for schema in schemas]
        return _PER_SCHEMAS + sum(each) if each else 0

    return guarded(measure, schemas)


def _part(part: object, counter: TokenCounter) -> int:
    match part:
        case TextPart():
            return count_text(part.text, counter)
        case ReasoningPart():
            return count_text(part.text, counter) + _blob(part.signature) + _blob(part.encrypted)
        case ToolCallPart():
            return _PER_CALL + count_text(part.name, counter) + _json(part.arguments, counter)
        case ToolResultPart():
            return _result(part, counter)
        case FilePart():
            return count_file(part, counter)
        case _:
            data: JsonValue = part.data if isinstance(part, UnknownPart) else part
            return over_estimate(dumps(data))


def _result(part: ToolResultPart, counter: TokenCounter) -> int:
    name = count_text(part.name, counter) if part.name else 0
    files = sum(count_file(file, counter) for file in part.files)
    return _PER_RESULT + name + _json(part.content, counter) + files


def _json(value: JsonValue, counter: TokenCounter) -> int:
    """Count a JSON value as the provider gets it: a string as it is, anything else as JSON text."""
    if value is None:
        return 0
    if isinstance(value, str):
        return count_text(value, counter)
    return guarded(lambda: counter.count(dumps(value)), value)


def _blob(blob: str | None) -> int:
    return -(-len(blob) // _BLOB_CHARACTERS) if blob else 0


# ---------------------------------------------------------------- files

# A page as an image of four tiles (765), and about 1,000 of text.
_PER_PAGE: Final = 1_765
# The longest PDF that a provider takes (Gemini).
_MOST_PAGES: Final = 1_000
_BYTES_PER_PAGE: Final = 30_000
_PAGES_UNKNOWN: Final = 25
# Ten tokens a second of sound. OpenAI takes no video: these are the 263 a second of Gemini, and 32 for the sound.
_PER_AUDIO_SECOND: Final = 10
_PER_VIDEO_SECOND: Final = 263 + 32
# The lowest bit rates in use, 32 and 256 kbit a second, so that a length is rather over- than
# under-estimated.
_AUDIO_BYTES_PER_SECOND: Final = 4_000
_VIDEO_BYTES_PER_SECOND: Final = 32_000
_SECONDS_UNKNOWN: Final = 300.0
# The longest recordings that a provider takes (Gemini): 9.5 hours of sound, an hour of video.
_MOST_AUDIO_SECONDS: Final = 34_200.0
_MOST_VIDEO_SECONDS: Final = 3_600.0
# Of other files (office files, archives) a provider shows the model an extract.
_OTHER_BYTES_PER_TOKEN: Final = 3
_OTHER_MOST: Final = 20_000
_FILE_OVERHEAD: Final = 4

# The pages of compressed PDFs cannot be counted; then they are estimated by size.
_PDF_PAGE: Final = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_TEXT_TYPES: Final = re.compile(
    r"text/.*|.*[+](json|xml|yaml)"
    r"|application/(.*-)?(json|jsonl|ndjson|xml|yaml|toml|javascript|typescript|sql|csv|markdown|sh|python)"
)


def count_file(part: FilePart, counter: TokenCounter) -> int:
    """Return the tokens of a file, over-estimated if its size is unknown; never raises."""

    def measure() -> int:
        name = counter.count(part.name) if part.name else 0
        return _FILE_OVERHEAD + name + _count(part, counter)

    return guarded(measure, part)


def _count(part: FilePart, counter: TokenCounter) -> int:
    media = part.media_type.partition(";")[0].strip().lower()
    data = _content(part)
    if _TEXT_TYPES.fullmatch(media):
        return _other(data) if data is None else counter.count(data.decode("utf-8", "replace"))
    family = media.partition("/")[0]
    if family == "image":
        return _image(part, data)
    if media == "application/pdf":
        return _pages(part, data) * _PER_PAGE
    if family == "audio":
        seconds = _seconds(part, data, _AUDIO_BYTES_PER_SECOND, _MOST_AUDIO_SECONDS)
        return math.ceil(seconds * _PER_AUDIO_SECOND)
    if family == "video":
        seconds = _seconds(part, data, _VIDEO_BYTES_PER_SECOND, _MOST_VIDEO_SECONDS)
        return math.ceil(seconds * _PER_VIDEO_SECOND)
    return _other(data)


def _content(part: FilePart) -> bytes | None:
    """Return the bytes in the part or in its data address; None if they are elsewhere."""
    if part.data is not None:
        return part.data
    if part.url is None or part.url[:5].lower() != "data:":
        return None
    head, _, payload = part.url.partition(",")
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(payload)
    try:
        return base64.b64decode(payload + "==")
    except ValueError:
        # Broken: its length still bounds what it could have been.
        return payload.encode("utf-8", "surrogatepass")


def _image(part: FilePart, data: bytes | None) -> int:
    stated = _positive(part.width), _positive(part.height)
    known = all(stated)
    width, height = stated if known else (image_size(data) if data else None) or (None, None)
    return image_tokens(width, height, is_low=part.detail == "low")


def _pages(part: FilePart, data: bytes | None) -> int:
    pages = math.ceil(_positive(part.pages) or 0)
    if not pages and data is not None:
        pages = sum(1 for _ in _PDF_PAGE.finditer(data)) or -(-len(data) // _BYTES_PER_PAGE)
    return min(pages or _PAGES_UNKNOWN, _MOST_PAGES)


def _seconds(part: FilePart, data: bytes | None, bytes_per_second: int, most: float) -> float:
    seconds = _positive(part.seconds)
    if seconds is None:
        seconds = len(data) / bytes_per_second if data else _SECONDS_UNKNOWN
    return min(seconds, most)


def _other(data: bytes | None) -> int:
    return _OTHER_MOST if data is None else min(-(-len(data) // _OTHER_BYTES_PER_TOKEN), _OTHER_MOST)


def _positive(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # NaN fails both comparisons.
    return value if 0 < value < math.inf else None


# ---------------------------------------------------------------- images

# "Images and vision": low detail costs 85. Otherwise the image is fitted into 2048 x 2048, its shortest side brought down to 768,
# and each 512-pixel tile costs 170 on top of the 85.
_BASE: Final = 85
_TILE: Final = 170
_LONGEST: Final = 2048
_SHORTEST: Final = 768
_TILE_SIDE: Final = 512
# The shape with the most tiles.
_DEAREST: Final = (768, 2048)
# Larger than any image; keeps the arithmetic in range for any stated size.
_LARGEST_SIDE: Final = 1_000_000


def image_tokens(width: object, height: object, *, is_low: bool = False) -> int:
    """Return the tokens of an image; the largest possible number if its size is unknown."""
    if is_low:
        return _BASE
    sides = _side(width), _side(height)
    sides = sides if all(sides) else _DEAREST
    sides = _shrunk(*sides, _LONGEST / max(sides))
    sides = _shrunk(*sides, _SHORTEST / min(sides))
    return _BASE + _TILE * math.prod(-(-side // _TILE_SIDE) for side in sides)


def _side(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return min(value, _LARGEST_SIDE)
    return 0


def _shrunk(width: int, height: int, scale: float) -> tuple[int, int]:
    if scale >= 1:
        return width, height
    return max(round(width * scale), 1), max(round(height * scale), 1)


# ---------------------------------------------------------------- image headers

_PNG: Final = b"\x89PNG\r\n\x1a\n"
# The frame headers of JPEG; C4, C8 and CC in between are tables.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers that stand alone, without a length.
_JPEG_BARE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_JPEG_START_OF_SCAN: Final = 0xDA
_JPEG_MOST_SEGMENTS: Final = 4096
_BMP_CORE_HEADER: Final = 12


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the header of a PNG, JPEG, GIF, WebP or BMP, if readable."""
    try:
        size = _read_size(data)
    except (struct.error, ValueError, TypeError, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _read_size(data: bytes) -> tuple[int, int] | None:
    size: tuple[int, int] | None = None
    if data[:8] == _PNG and data[12:16] == b"IHDR":
        size = struct.unpack_from(">II", data, 16)
    elif data[:2] == b"\xff\xd8":
        size = _jpeg_size(data)
    elif data[:6] in (b"GIF87a", b"GIF89a"):
        size = struct.unpack_from("<HH", data, 6)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp_size(data)
    elif data[:2] == b"BM":
        size = _bmp_size(data)
    return size


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Follow the segments to the frame header; each step jumps over one, however large."""
    at = 2
    for _ in range(_JPEG_MOST_SEGMENTS):
        if data[at] != 0xFF:  # noqa: PLR2004 - the mark of a marker
            return None
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == _JPEG_START_OF_SCAN:
            return None
        at += _jpeg_step(data, at, marker)
    return None


def _jpeg_step(data: bytes, at: int, marker: int) -> int:
    if marker == 0xFF:  # noqa: PLR2004 - padding before a marker
        return 1
    if marker in _JPEG_BARE:
        return 2
    (length,) = struct.unpack_from(">H", data, at + 2)
    return 2 + int(length)


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and data[20] == 0x2F:  # noqa: PLR2004 - its signature
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    if kind == b"VP8X":
        low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", data, 24)
        return (low_width | high_width << 16) + 1, (low_height | high_height << 16) + 1
    return None


def _bmp_size(data: bytes) -> tuple[int, int] | None:
    (header,) = struct.unpack_from("<I", data, 14)
    if header == _BMP_CORE_HEADER:
        return struct.unpack_from("<HH", data, 18)
    width, height = struct.unpack_from("<ii", data, 18)
    # A negative height means that the rows are stored from the top.
    return width, abs(height)
