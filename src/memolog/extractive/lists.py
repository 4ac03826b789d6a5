"""Write the lists of an assistant as lines of the log, and parse such lines.

An item has the number of its position in the line, unless it begins with a number: then items before it were left out.

"Assistant listed hostels in Porto: Casa Alba – near the river; Rivoli; 5. Bolhão | Tips: book early; bring a lock"
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["Entry", "Listing", "listing_lines", "listings_in", "read_listing"]


class Entry(NamedTuple):
    """An item of a list."""

    number: int
    text: str
    details: tuple[str, ...] = ()


class Listing(NamedTuple):
    """A list, and the message that it stands in."""

    topic: str
    entries: tuple[Entry, ...]
    number: int = 0


_LONGEST: Final = 700
_LONGEST_PLAIN: Final = 720
"""For lines of items without details."""
_LINE: Final = re.compile(r"(Assistant(?: [^:;]{1,60}?)?) listed (?=\S)")
_NUMBER: Final = re.compile(r"(\d{1,3})\. ")
_DETAIL: Final = " – "
_NEXT: Final = " | "


def listing_lines(who: str, listings: Sequence[Listing]) -> Iterator[str]:
    """Yield lines of bounded length that say what is listed, and the items."""
    line = ""
    for listing in listings:
        topic = _plain(listing.topic) or "these"
        opened, last = False, 0
        most = _LONGEST if any(entry.details for one in listings for entry in one.entries) else _LONGEST_PLAIN
        for entry in listing.entries:
            text = _text(entry, has_number=entry.number != last + 1)
            last = entry.number
            if opened and len(line) + len(text) + 2 <= most:
                line += f"; {text}"
                continue
            lead = f"{topic[:1].upper()}{topic[1:]}: {text}"
            if not opened and line and len(line) + len(lead) + len(_NEXT) <= most:
                line += f"{_NEXT}{lead}"
            else:
                if line:
                    yield line
                line = f"{who} listed {topic}: {_text(entry, has_number=entry.number != 1)}"
            opened = True
    if line:
        yield line


def _text(entry: Entry, *, has_number: bool) -> str:
    """Return an item as it stands in a line, without the separators of items."""
    text, details = entry.text, list(entry.details)
    if details and details[0].startswith(text):
        # The head is the beginning of the first detail.
        text, details = details[0], details[1:]
    said = _DETAIL.join(_plain(part.rstrip(". ")) for part in (text, " ".join(details)) if part)
    return f"{entry.number}. {said}" if has_number else said


def _plain(text: str) -> str:
    """Return a text without the separators of topics and items."""
    return text.replace("; ", ", ").replace(": ", " – ").replace(_NEXT, ", ")


def read_listing(line: str) -> tuple[str, list[Listing]] | None:
    """Parse a line of the log that lists items; return None for any other line."""
    hit = _LINE.match(line)
    if hit is None:
        return None
    listings: list[Listing] = []
    for part in line[hit.end() :].split(_NEXT):
        topic, colon, items = part.partition(": ")
        if not colon:
            return None
        entries: list[Entry] = []
        for item in items.split("; "):
            entries.append(_entry(item, entries[-1].number if entries else 0))
        listings.append(Listing(topic, tuple(entries)))
    return hit[1], listings


def _entry(item: str, last: int) -> Entry:
    number = _NUMBER.match(item)
    head, *details = (item[number.end() :] if number else item).split(_DETAIL, 1)
    return Entry(int(number[1]) if number else last + 1, head, tuple(details))


def listings_in(log: str) -> list[Listing]:
    """Return the last lists of a rendered log: those under one message of the user."""
    found: list[Listing] = []
    is_over = False
    for row in log.split("\n"):
        start = row.find("Assistant")
        line = read_listing(row[start:]) if start >= 0 and " listed " in row else None
        if line is None:
            is_over = is_over or (bool(found) and not row.startswith(" "))
            continue
        found = line[1] if is_over else [*found, *line[1]]
        is_over = False
    return found
