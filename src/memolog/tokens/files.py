"""Count the tokens of a file part: images, PDF, audio, video and text, by their stated size or their bytes.

Nothing is fetched: a file behind an address is over-estimated. Never raises.
"""

import base64
import math
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from memolog.domain.message import FilePart
from memolog.tokens.counter import TokenCounter
from memolog.tokens.estimate import guarded
from memolog.tokens.images import image_size, image_tokens

__all__ = ["count_file"]

# A page as an image and as text. OpenAI: four tiles (765) and about 1,000 of text. Anthropic, "PDF
# support": an image (about 1,600) and from 1,500 of text. Gemini, "Document understanding": 258.
_PER_PAGE: Final = {"openai": 1_765, "anthropic": 3_100, "gemini": 258}
# The longest PDF that a provider takes (Gemini).
_MOST_PAGES: Final = 1_000
_BYTES_PER_PAGE: Final = 30_000
_PAGES_UNKNOWN: Final = 25
# OpenAI hears ten tokens a second; Gemini 32 a second, and sees 263 a second of video besides.
# Anthropic takes neither.
_PER_AUDIO_SECOND: Final = {"openai": 10, "gemini": 32}
_PER_VIDEO_SECOND: Final = {"gemini": 263 + 32}
# The lowest bit rates in use, 32 and 256 kbit a second, so that a length is rather over- than
# under-estimated.
_AUDIO_BYTES_PER_SECOND: Final = 4_000
_VIDEO_BYTES_PER_SECOND: Final = 32_000
_SECONDS_UNKNOWN: Final = 300.0
# The longest recordings that a provider takes (Gemini): 9.5 hours of sound, an hour of video.
_MOST_AUDIO_SECONDS: Final = 34_200.0
_MOST_VIDEO_SECONDS: Final = 3_600.0
# Whatever else a provider takes (office files, archives), it shows the model an extract.
_OTHER_BYTES_PER_TOKEN: Final = 3
_OTHER_MOST: Final = 20_000
_FILE_OVERHEAD: Final = 4

# Compressed PDFs hide their pages; then the size has to do.
_PDF_PAGE: Final = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_TEXT_TYPES: Final = re.compile(
    r"text/.*|.*[+](json|xml|yaml)"
    r"|application/(.*-)?(json|jsonl|ndjson|xml|yaml|toml|javascript|typescript|sql|csv|markdown|sh|python)"
)


def count_file(part: FilePart, counter: TokenCounter, provider: str = "openai") -> int:
    """Return what the file costs, over-estimated where its size is unknown; never raises."""

    def measure() -> int:
        name = counter.count(part.name) if part.name else 0
        return _FILE_OVERHEAD + name + _count(part, counter, provider)

    return guarded(measure, part)


def _count(part: FilePart, counter: TokenCounter, provider: str) -> int:
    media = part.media_type.partition(";")[0].strip().lower()
    data = _content(part)
    if _TEXT_TYPES.fullmatch(media):
        return _other(data) if data is None else counter.count(data.decode("utf-8", "replace"))
    family = media.partition("/")[0]
    if family == "image":
        return _image(part, data, provider)
    if media == "application/pdf":
        return _pages(part, data) * _rate(_PER_PAGE, provider)
    if family == "audio":
        seconds = _seconds(part, data, _AUDIO_BYTES_PER_SECOND, _MOST_AUDIO_SECONDS)
        return math.ceil(seconds * _rate(_PER_AUDIO_SECOND, provider))
    if family == "video":
        seconds = _seconds(part, data, _VIDEO_BYTES_PER_SECOND, _MOST_VIDEO_SECONDS)
        return math.ceil(seconds * _rate(_PER_VIDEO_SECOND, provider))
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


def _image(part: FilePart, data: bytes | None, provider: str) -> int:
    stated = _positive(part.width), _positive(part.height)
    known = all(stated)
    width, height = stated if known else (image_size(data) if data else None) or (None, None)
    return image_tokens(width, height, provider=provider, detail=part.detail)


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
    """Return the number if it is one above zero; anything else is as good as unknown."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An endless length is a mistake, not a length; NaN fails both comparisons.
    return value if 0 < value < math.inf else None


def _rate(rates: Mapping[str, int], provider: str) -> int:
    """Return the provider's rate, or the highest where the provider has none."""
    return rates.get(provider) or max(rates.values())
