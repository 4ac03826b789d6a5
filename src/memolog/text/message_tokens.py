"""Count the tokens of messages as a provider counts them: texts, tool calls, and files by their stated size or their bytes.

No function raises. A part that cannot be counted, or a file that is only a URL, is over-estimated. Files are counted by the
rules of OpenAI, and `Calibration` corrects the counts for other providers. The `extra` of a part is not sent and not counted.
"""

import math
import re
import struct
from collections.abc import Iterable
from typing import Final

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
    file_content,
)
from memolog.text.tokens import TokenCounter, guarded, over_estimate

# Tokens, from "How to count tokens" in OpenAI's cookbook: three for each message, one for its role, one for a name. Other
# providers publish no numbers, but their counts are close.
_PER_MESSAGE: Final = 3
_PER_ROLE: Final = 1
_PER_NAME: Final = 1
# Tokens for the id and the wrapping of a tool call and of a tool result.
_PER_CALL: Final = 10
_PER_RESULT: Final = 8
# Tokens for the wrapping of each function and of the list of functions, also from the cookbook.
_PER_SCHEMA: Final = 8
_PER_SCHEMAS: Final = 12
# Opaque blobs are base64 and have at least this many characters per token.
_BLOB_CHARACTERS: Final = 4


def count_message(message: Message | NewMessage, counter: TokenCounter) -> int:
    """Return the number of tokens of a message in a request, including the name of the speaker. Never raises."""

    def measure() -> int:
        parts, speaker = message.parts, message.speaker
        if len(parts) == 1 and isinstance(parts[0], TextPart) and not speaker and message.role in ROLES:
            # A fast path, because most messages are plain text and every save counts its messages.
            return _PER_MESSAGE + _PER_ROLE + count_text(parts[0].text, counter)
        name = _PER_NAME + count_text(speaker, counter) if speaker else 0
        return name + count_parts(message.role, parts, counter)

    return guarded(measure, message)


def count_parts(role: str, parts: Iterable[Part], counter: TokenCounter) -> int:
    """Return the number of tokens of one message with these parts in a request. Never raises."""

    def measure() -> int:
        return sum(guarded(lambda part=part: _part(part, counter), part) for part in parts)

    role_tokens = guarded(lambda: 0 if role in ROLES else count_text(role, counter), role)
    return _PER_MESSAGE + max(role_tokens, _PER_ROLE) + guarded(measure, parts)


def count_text(text: object, counter: TokenCounter) -> int:
    """Return the number of tokens of a text, or an over-estimate if it is not a string or the counter fails. Never raises."""
    if not isinstance(text, str):
        return over_estimate(text)
    return guarded(lambda: counter.count(text), text)


def count_tool_schemas(schemas: Iterable[JsonObject], counter: TokenCounter) -> int:
    """Return the number of tokens that tool descriptions add to a request. Never raises."""

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
            files = sum(count_file(file, counter) for file in part.files)
            return _PER_RESULT + _named(part.name, counter) + _json(part.content, counter) + files
        case FilePart():
            return count_file(part, counter)
        case _:
            data: JsonValue = part.data if isinstance(part, UnknownPart) else part
            return over_estimate(dumps(data))


def _json(value: JsonValue, counter: TokenCounter) -> int:
    """Return the number of tokens of a JSON value. A string is counted as it is, any other value as JSON text."""
    if value is None:
        return 0
    return guarded(lambda: counter.count(value if isinstance(value, str) else dumps(value)), value)


def _blob(blob: str | None) -> int:
    return -(-len(blob) // _BLOB_CHARACTERS) if blob else 0


# ---------------------------------------------------------------- files

# Tokens of a PDF page: 765 for the page as an image of four tiles, and about 1,000 for its text.
_PER_PAGE: Final = 1_765
# The maximum number of pages that a provider (Gemini) accepts.
_MAX_PAGES: Final = 1_000
# The number of pages is estimated from the size if it is not known, and is this number if the size is not known either.
_BYTES_PER_PAGE: Final = 30_000
_PAGES_UNKNOWN: Final = 25
# Tokens per second. OpenAI accepts no video, so the numbers of Gemini are used: 263 for the images and 32 for the sound.
_PER_AUDIO_SECOND: Final = 10
_PER_VIDEO_SECOND: Final = 263 + 32
# The lowest bit rates in use (32 and 256 kbit per second), so that a duration is over-estimated rather than under-estimated.
_AUDIO_BYTES_PER_SECOND: Final = 4_000
_VIDEO_BYTES_PER_SECOND: Final = 32_000
_SECONDS_UNKNOWN: Final = 300.0
# The maximum durations that a provider (Gemini) accepts: 9.5 hours of sound, one hour of video.
_MAX_AUDIO_SECONDS: Final = 34_200.0
_MAX_VIDEO_SECONDS: Final = 3_600.0
# Of other files (office files, archives) the provider gives the model an extract, which has at most `_OTHER_MAX` tokens.
_OTHER_BYTES_PER_TOKEN: Final = 3
_OTHER_MAX: Final = 20_000
_FILE_OVERHEAD: Final = 4

# Matches once for each page. A compressed PDF has no matches, so the number of its pages is estimated from its size.
_PDF_PAGE: Final = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_TEXT_TYPES: Final = re.compile(
    r"text/.*|.*[+](json|xml|yaml)"
    r"|application/(.*-)?(json|jsonl|ndjson|xml|yaml|toml|javascript|typescript|sql|csv|markdown|sh|python)"
)


def count_file(part: FilePart, counter: TokenCounter) -> int:
    """Return the number of tokens of a file, or an over-estimate if its size is unknown. Never raises."""
    return guarded(lambda: _FILE_OVERHEAD + _named(part.name, counter) + _count(part, counter), part)


LARGE_FILE: Final = 1_500
"""Files of more tokens than this are large. Images have fewer tokens, and their number is known from their size."""


def count_large_files(parts: Iterable[Part], counter: TokenCounter) -> int:
    """Return the number of tokens of the large files in these parts. Never raises."""

    def measure() -> int:
        several = (part.files if isinstance(part, ToolResultPart) else (part,) for part in parts)
        sizes = (count_file(file, counter) for files in several for file in files if isinstance(file, FilePart))
        return sum(size for size in sizes if size > LARGE_FILE)

    return guarded(measure, "")


def file_shares(messages: Iterable[Message], counted: int, reported: float) -> dict[int, int]:
    """Return the tokens of the large files whose tokens are not reported yet, by the sequence number of their message.

    `counted` and `reported` are the tokens of a whole request with these messages. The tokens of the rest of the request are
    subtracted from `reported`, and the files share the remainder in proportion to their estimates.
    """
    files = tuple(messages)
    new = {message.seq: message.file_tokens for message in files if not message.is_file_reported}
    estimate = sum(new.values())
    left = max(0.0, reported - (counted - estimate))
    return {seq: max(1, round(left * tokens / estimate)) for seq, tokens in new.items()}


def _named(name: str | None, counter: TokenCounter) -> int:
    return count_text(name, counter) if name else 0


def _count(part: FilePart, counter: TokenCounter) -> int:
    media = _media(part)
    data = file_content(part)
    if _TEXT_TYPES.fullmatch(media):
        return _other(data) if data is None else counter.count(data.decode("utf-8", "replace"))
    family = media.partition("/")[0]
    if family == "image":
        return _image(part, data)
    if media == "application/pdf":
        return _pages(part, data) * _PER_PAGE
    if family == "audio":
        seconds = _seconds(part, data, _AUDIO_BYTES_PER_SECOND, _MAX_AUDIO_SECONDS)
        return math.ceil(seconds * _PER_AUDIO_SECOND)
    if family == "video":
        seconds = _seconds(part, data, _VIDEO_BYTES_PER_SECOND, _MAX_VIDEO_SECONDS)
        return math.ceil(seconds * _PER_VIDEO_SECOND)
    return _other(data)


def file_text(part: FilePart) -> str | None:
    """Return the text of a file with a text format. None if the file has another format, or if its content is not stored."""
    if not _TEXT_TYPES.fullmatch(_media(part)):
        return None
    data = file_content(part)
    return None if data is None else data.decode("utf-8", "replace")


def _media(part: FilePart) -> str:
    return part.media_type.partition(";")[0].strip().lower()


def _image(part: FilePart, data: bytes | None) -> int:
    stated = _positive(part.width), _positive(part.height)
    width, height = stated if all(stated) else (image_size(data) if data else None) or (None, None)
    return image_tokens(width, height, is_low=part.detail == "low")


def _pages(part: FilePart, data: bytes | None) -> int:
    pages = math.ceil(_positive(part.pages) or 0)
    if not pages and data is not None:
        pages = sum(1 for _ in _PDF_PAGE.finditer(data)) or -(-len(data) // _BYTES_PER_PAGE)
    return min(pages or _PAGES_UNKNOWN, _MAX_PAGES)


def _seconds(part: FilePart, data: bytes | None, bytes_per_second: int, maximum: float) -> float:
    estimate = len(data) / bytes_per_second if data else _SECONDS_UNKNOWN
    return min(_positive(part.seconds) or estimate, maximum)


def _other(data: bytes | None) -> int:
    return _OTHER_MAX if data is None else min(-(-len(data) // _OTHER_BYTES_PER_TOKEN), _OTHER_MAX)


def _positive(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # This is also None for NaN, because both comparisons are false.
    return value if 0 < value < math.inf else None


# ---------------------------------------------------------------- images

# From "Images and vision" of OpenAI: an image of low detail has 85 tokens. Any other image is scaled down to fit 2048 x 2048
# pixels, and then until its shorter side has at most 768 pixels. It has 85 tokens, and 170 for each tile of 512 x 512 pixels.
_BASE: Final = 85
_TILE: Final = 170
_MAX_LONGER_SIDE: Final = 2048
_MAX_SHORTER_SIDE: Final = 768
_TILE_SIDE: Final = 512
# The size in pixels with the maximum number of tiles, for images of unknown size.
_MOST_TILES: Final = (768, 2048)
# No image has more pixels on a side. A larger stated size is reduced to this size, so that the arithmetic cannot overflow.
_MAX_SIDE: Final = 1_000_000


def image_tokens(width: object, height: object, *, is_low: bool = False) -> int:
    """Return the number of tokens of an image. Return the maximum if the size of the image is unknown."""
    if is_low:
        return _BASE
    sides = [min(_positive(side) or 0, _MAX_SIDE) for side in (width, height)]
    sides = sides if all(sides) else _MOST_TILES
    for limit, measured in ((_MAX_LONGER_SIDE, max), (_MAX_SHORTER_SIDE, min)):
        scale = min(limit / measured(sides), 1)
        sides = [max(round(side * scale), 1) for side in sides]
    return _BASE + _TILE * math.prod(math.ceil(side / _TILE_SIDE) for side in sides)


# ---------------------------------------------------------------- image headers

_PNG: Final = b"\x89PNG\r\n\x1a\n"
# The markers of frame headers in JPEG. C4, C8 and CC are markers of tables.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers that have no length after them.
_JPEG_BARE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_JPEG_START_OF_SCAN: Final = 0xDA
_JPEG_MAX_SEGMENTS: Final = 4096
_BMP_CORE_HEADER: Final = 12


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, JPEG, GIF, WebP or BMP image, or None if its header cannot be read."""
    try:
        size = _read_size(data)
    except (struct.error, ValueError, TypeError, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _read_size(data: bytes) -> tuple[int, int] | None:
    if data[:8] == _PNG and data[12:16] == b"IHDR":
        return struct.unpack_from(">II", data, 16)
    if data[:2] == b"\xff\xd8":
        return _jpeg_size(data)
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return struct.unpack_from("<HH", data, 6)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp_size(data)
    return _bmp_size(data) if data[:2] == b"BM" else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Return the size in the frame header. Each step of the loop skips one segment."""
    at = 2
    for _ in range(_JPEG_MAX_SEGMENTS):
        if data[at] != 0xFF:  # noqa: PLR2004 - every marker begins with FF
            return None
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == _JPEG_START_OF_SCAN:
            return None
        if marker == 0xFF:  # noqa: PLR2004 - padding before a marker
            at += 1
        else:
            at += 2 + (0 if marker in _JPEG_BARE else struct.unpack_from(">H", data, at + 2)[0])
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and data[20] == 0x2F:  # noqa: PLR2004 - the signature of VP8L
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
    # The height is negative if the rows are stored from top to bottom.
    return width, abs(height)
