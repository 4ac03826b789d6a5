"""Names of months and weekdays in seven languages, with the short forms that CLDR lists.

Keys are in lower case; values are the number of the month (from 1) or of the weekday (Monday is 0).
"""

from typing import Final

__all__ = ["ENGLISH_MONTHS", "ENGLISH_WEEKDAYS", "FULL_MONTHS", "MONTHS", "RISKY_MONTHS", "WEEKDAYS"]

ENGLISH_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ENGLISH_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FULL: Final = (
    " ".join(ENGLISH_MONTHS).lower(),
    "januar februar märz april mai juni juli august september oktober november dezember",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "januari februari maart april mei juni juli augustus september oktober november december",
    # As they are typed without accents or in a regional form; a dash where there is none.
    "jänner feber maerz - - - - - setiembre - - -",
    "- fevrier - - - - - aout - - - decembre",
)
_SHORT: Final = (
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "jan feb mär apr mai jun jul aug sept okt nov dez",
    "- - mrz - - - - - - - - -",
    "ene feb mar abr may jun jul ago sept oct nov dic",
    "janv févr mars avr mai juin juil août sept oct nov déc",
    "jan fev mar abr mai jun jul ago set out nov dez",
    "gen feb mar apr mag giu lug ago set ott nov dic",
    "jan feb mrt apr mei jun jul aug sep okt nov dec",
)
# Short forms that are common words elsewhere: "3 days ago", "a set of 5", "5 lug nuts", "ich mag 3".
_WORDS: Final = frozenset({"ago", "gen", "lug", "mag", "out", "set"})


def _numbered(rows: tuple[str, ...]) -> dict[str, int]:
    return {name: number for row in rows for number, name in enumerate(row.split(), 1) if name != "-"}


FULL_MONTHS: Final[dict[str, int]] = _numbered(_FULL)
"""Names that are written out."""
MONTHS: Final[dict[str, int]] = {
    **FULL_MONTHS,
    **{name: number for name, number in _numbered(_SHORT).items() if name not in _WORDS},
}
"""Names and short forms that mean a month beside the number of a day."""
RISKY_MONTHS: Final[dict[str, int]] = {name: number for name, number in _numbered(_SHORT).items() if name in _WORDS}
"""Short forms that mean a month only beside a day and a year."""

_WEEKDAYS: Final = (
    " ".join(ENGLISH_WEEKDAYS).lower(),
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lunes martes miércoles jueves viernes sábado domingo",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
)
WEEKDAYS: Final[dict[str, int]] = {
    **{name: number for row in _WEEKDAYS for number, name in enumerate(row.split())},
    "sonnabend": 5,
}
"""Names of weekdays, written out."""
