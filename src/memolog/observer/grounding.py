"""Find what a line of the log names that neither its sources nor the log contain.

Differences in spelling and formatting, and dates that were computed, are accepted. `judge` decides what follows.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from memolog.observer.evidence import Evidence, is_found
from memolog.text.identifiers import Day, Mention, days_in, folded, mentions, minutes_in, values_of
from memolog.text.word_lists import MEANING

_YEAR_DAYS: Final = 366
_MEANING: Final = re.compile(rf"{MEANING}[^()（）\n]{{1,80}}[)）]", re.IGNORECASE)
_MONTH: Final = re.compile(r"[(（]meaning (?:19|20)\d\d(?:-(?:0[1-9]|1[0-2]|Q[1-4]))?[)）]", re.IGNORECASE)
"""A computed month or year, which is not compared with a day."""
_MOST_YEAR: Final = 9_999


def ungrounded(
    text: str,
    sources: Sequence[str | Evidence],
    log: str | Evidence = "",
    *,
    said_at: Sequence[datetime] = (),
    about: date | None = None,
) -> tuple[str, ...]:
    """Return the identifiers, numbers, dates, quoted strings and names of a line that none of its sources has.

    `sources` are the messages that the line cites, `log` is what the observer saw of the log, `said_at` are the moments of
    the messages, `about` is the day that the line says is meant. A date in "(meaning …)" needs no source if it lies within
    a year of what was said.
    """
    cited = [_evidence(source) for source in sources]
    texts = [*cited, _evidence(log)]
    moments = [moment for moment in said_at for moment in (moment, _in_utc(moment))]
    worked_out = {day for hit in _MEANING.finditer(text) for day in days_in(folded(hit[0]))}
    if about:
        worked_out.add(Day(year=about.year, month=about.month, day=about.day))
    missing: list[str] = []
    for mention in mentions(_MONTH.sub("", text) if moments else text):
        if _follows(mention, moments, worked_out) or is_found(mention, texts) or _is_other_script(mention, cited):
            continue
        # Parts of a string that is missing as a whole are not listed.
        if not any(mention.text in other for other in missing):
            missing.append(mention.text)
    return tuple(missing)


def _evidence(source: str | Evidence) -> Evidence:
    return Evidence(source) if isinstance(source, str) else source


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError):
        return moment


def _follows(mention: Mention, moments: Sequence[datetime], worked_out: set[Day]) -> bool:
    """Return whether a date, a year or a time follows from when the messages were said."""
    match mention.kind:
        case "date":
            return any(
                _is_near(day, moment.date(), day in worked_out)
                for day in days_in(folded(mention.text))
                for moment in moments
            )
        case "number":
            return not values_of(mention.text).isdisjoint(str(moment.year) for moment in moments)
        case "time":
            said = {moment.hour * 60 + moment.minute for moment in moments}
            return not minutes_in(mention.text).isdisjoint(said)
        case _:
            return False


def _is_near(day: Day, said: date, was_worked_out: bool) -> bool:
    year = day.year or said.year
    if not was_worked_out:
        return (year, day.month, day.day) == (said.year, said.month, said.day)
    try:
        meant = date(min(max(year, 1), _MOST_YEAR), day.month, day.day)
    except ValueError:
        return False
    return abs((meant - said).days) <= _YEAR_DAYS


def _is_other_script(mention: Mention, cited: Sequence[Evidence]) -> bool:
    """Return whether a name was transliterated from another script and cannot be compared."""
    if mention.kind != "name":
        return False
    scripts = {text.is_latin for text in cited} - {None}
    return bool(scripts) and bool(re.search(r"[A-Za-z]", mention.text)) not in scripts
