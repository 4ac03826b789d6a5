"""Dates and sentences in seven languages: the day is right or None, and no sentence ends in the middle of a date."""

from datetime import date

import pytest

from memolog.observer.extractive.relative_dates import dated
from memolog.observer.extractive.sentences import sentences
from memolog.text.dates import FULL_MONTHS, MONTHS, RISKY_MONTHS, WEEKDAYS, find_date
from memolog.text.identifiers import days_in

# A Wednesday.
SAID = date(2026, 6, 10)

DATES: dict[str, str | None] = {
    # A day months ago or months ahead needs a word that shows the tense.
    "La boda será el 15 de enero": "2027-01-15",
    "La boda no puede ser el 15 de enero": None,
    "they printed everything twice until January 15": "2026-01-15",
    "we moved the webinar to October 21": "2026-10-21",
    # The name of a street, a weekday before a relative clause, and a weekday with the day of the month.
    "downhill on Rua 5 de Outubro": None,
    "in der Straße des 17. Juni": None,
    "I have a scan on Thursday that got rescheduled": None,
    "je commence le lundi 15 juin": "2026-06-15",
    # German
    "am 28. Juni 14 Uhr": "2026-06-28",
    "2. Juli 9 Uhr": "2026-07-02",
    "Termin am 2. Juli um 9:30": "2026-07-02",
    "am 3. März waren wir dort": "2026-03-03",
    "am 3. Maerz": "2026-03-03",
    "am 5. Sept. 15 Uhr": "2026-09-05",
    "am 5. Okt.": "2026-10-05",
    "bis 31. Dez.": "2026-12-31",
    "due January 5": "2027-01-05",
    "bis 5. Juni": "2026-06-05",
    "bis 30. November": "2026-11-30",
    "am 24. Dezember 2025": "2025-12-24",
    "am 3. Mai 26": "2026-05-03",
    "am 3. Mai 19": None,
    "am 3. Mai 20 Leute eingeladen": None,
    "am 28.6. um 14 Uhr": "2026-06-28",
    "am 28.06.2026": "2026-06-28",
    "im 3. Stock": None,
    "Artikel 5 Mai": None,
    "Kapitel 3 Juni": None,
    "Nr. 17 Juli": None,
    "um 5 Mai": None,
    "am 31. Juni": None,
    "August 14 Uhr": None,
    "am 3. Mai 1400 Euro bezahlt": None,
    "am 3. Mai 2026 Euro bezahlt": None,
    "bis Freitag": "2026-06-12",
    "kommenden Freitag": "2026-06-12",
    "letzten Montag": "2026-06-08",
    "der 2. Weltkrieg": None,
    "die 5 Jungen": None,
    "ich mag 3 davon": None,
    # English
    "June 28 at 2 pm": "2026-06-28",
    "on June 28th": "2026-06-28",
    "the 28th of June": "2026-06-28",
    "28 June": "2026-06-28",
    "Sept. 5": "2026-09-05",
    "Sept 5, 2027": "2027-09-05",
    "July 4, 1776": None,
    "on 5 May 1066": None,
    "May 5": "2026-05-05",
    "May 5th works": "2026-05-05",
    "on May 5 at noon": "2026-05-05",
    "May 5 people come?": None,
    "may 5 of us join?": None,
    "I met May 3 times": None,
    "Theresa May 12 votes": None,
    "you may 5": None,
    "we march 20 miles": None,
    "March 20 works for me": "2026-03-20",
    "I saw April 3 times": None,
    "June 5 people came": None,
    "article 5 May": None,
    "chapter 3 March": None,
    "at 5 May left": None,
    "version 2 June": None,
    "#5 May": None,
    "3/4/2026": None,
    "4/3/2026": None,
    "25/4/2026": "2026-04-25",
    "4/25/2026": "2026-04-25",
    "5/5/2026": "2026-05-05",
    "3-4-2026": None,
    "13/13/2026": None,
    "3.4.2026": "2026-04-03",
    "2026-04-03": "2026-04-03",
    "February 30": None,
    "3 days ago": "2026-06-07",
    "a set of 5 set pieces": None,
    "5 out of 7": None,
    "5 lug nuts": None,
    "2 Mars bars": None,
    "by Friday": "2026-06-12",
    "last Monday": "2026-06-08",
    "every Friday": None,
    "June 1.5": None,
    "June 50%": None,
    # Spanish
    "el 3 de mayo de 2026 a las 15 h": "2026-05-03",
    "el 3 de mayo": "2026-05-03",
    "1º de julio": "2026-07-01",
    "1.º de julio": "2026-07-01",
    "el 5 de septiembre del 2027": "2027-09-05",
    "el 5 de setiembre": "2026-09-05",
    "el 2 de ago. de 2026": "2026-08-02",
    "el 12 de ene.": None,
    "el 3 de may a las 9": "2026-05-03",
    "artículo 5 mayo": None,
    "a las 5 mayo": None,
    "el lunes pasado": "2026-06-08",
    "hasta el viernes": "2026-06-12",
    "todos los viernes": None,
    "3 de 7 personas": None,
    # French
    "le 14 juillet à 9 h": "2026-07-14",
    "1er mars": "2026-03-01",
    "le 1er Mars": "2026-03-01",
    "le 2 Mars": "2026-03-02",
    "le 2 août": "2026-08-02",
    "le 2 aout": "2026-08-02",
    "le 5 févr.": None,
    "le 5 janv. 2027": "2027-01-05",
    "le 5 juil. à 10h30": "2026-07-05",
    "le 8 mai 1945": "1945-05-08",
    "article 5 mai": None,
    "numéro 3 juin": None,
    "chapitre 2 mars": None,
    "d'ici vendredi": "2026-06-12",
    "lundi dernier": "2026-06-08",
    "le 31 avril": None,
    # Portuguese
    "dia 7 de setembro às 10h": "2026-09-07",
    "7 de setembro de 2026": "2026-09-07",
    "no dia 1º de maio": "2026-05-01",
    "em 3 de março": "2026-03-03",
    "5 de out. de 2026": "2026-10-05",
    "5 de fevereiro": None,
    "artigo 5 maio": None,
    "às 5 maio": None,
    "até sexta-feira": "2026-06-12",
    "segunda-feira passada": "2026-06-08",
    "ontem": "2026-06-09",
    # Italian
    "il 2 giugno alle 20": "2026-06-02",
    "il 1º luglio": "2026-07-01",
    "l'8 settembre": "2026-09-08",
    "il 5 ott. 2026": "2026-10-05",
    "il 5 mag 2026": "2026-05-05",
    "il 25 aprile 2026": "2026-04-25",
    "articolo 5 maggio": None,
    "alle 5 maggio": None,
    "entro venerdì": "2026-06-12",
    "lunedì scorso": "2026-06-08",
    "dopodomani": "2026-06-12",
    "non lo faccio mai": None,
    # Dutch
    "op 5 mei om 14 uur": "2026-05-05",
    "5 mrt. 2026": "2026-03-05",
    "op 3 augustus": "2026-08-03",
    "op 1 januari 2027": "2027-01-01",
    "op 12 okt": "2026-10-12",
    "artikel 5 mei": None,
    "hoofdstuk 3 maart": None,
    "om 5 mei": None,
    "tot vrijdag": "2026-06-12",
    "afgelopen maandag": "2026-06-08",
    "elke vrijdag": None,
    "gisteren": "2026-06-09",
}

WHOLE = (
    *("Wir treffen uns am 28. Juni 14 Uhr im Büro.", "Am 2. Juli 9 Uhr ist der Termin.", "Sie wohnt im 3. Stock."),
    *("Siehe Nr. 17 im Plan.", "Wir nutzen z. B. Redis.", "Wir nutzen z.B. Redis.", "Fertig wird es zum 30. Oktober."),
    *(
        "Das gilt i. d. R. Montags.",
        "Bitte u. a. Berlin nennen.",
        "Es gilt Art. 5 Abs. 2 der Satzung.",
        "Am Mo. 5. Mai geht es los.",
    ),
    *(
        "Vom 3. bis 5. Mai sind wir weg.",
        "Das kam 44 v. Chr. Rom zugute.",
        "Fr. Dr. Weber kommt.",
        "Am 3. über den Berg.",
    ),
    *(
        "The release is on Sept. 5 at noon.",
        "I live in Apt. 4B now.",
        "See Fig. 3 and No. 17 for it.",
        "Ask Dr. Smith or J. Doe.",
    ),
    *("It starts on Jan. 3 sharp.", "Look at p. 12 and vol. 3 of it.", "Meet on Fri. 5 June."),
    *(
        "Vea la pág. 12 del libro.",
        "El Sr. García y la Sra. Ruiz vienen.",
        "Use p. ej. Redis.",
        "Vive en EE. UU. Ahora",
    ),
    *("M. Dupont arrive le 5 janv. 2027.", "Voir art. 5 et p. ex. Paris.", "Appelez le tél. 06 12."),
    *("A Sra. Silva chega em 5 de out. 2026.", "Veja o art. 5 da lei.", "Veja o cap. 4 do livro."),
    *("Il Dott. Rossi arriva il 5 ott. 2026.", "La Sig. Bianchi e il Prof. Verdi.", "Vedi cap. 4 e pag. 12."),
    *("Dhr. Jansen komt op 5 mrt. 2026.", "Neem bijv. Redis.", "Zie nr. 17 en blz 3.", "Mevr. Bakker belt."),
    "Fertig ist es zum 30. Danach",
)
CUT: dict[str, int] = {
    "Wir treffen uns am 28. Juni. Danach gibt es Kaffee.": 2,
    "Es kostet 30. Das ist viel.": 2,
    "I am 30. My brother is 40.": 2,
    "No. We cannot do that.": 2,
    "The score was 5. We left.": 2,
    "It was on Sept. Then we left.": 2,
    "Il est parti. Elle reste.": 2,
    "Llegó ayer. Hoy descansa.": 2,
    "Chegou ontem. Hoje descansa.": 2,
    "È partito. Ora riposa.": 2,
    "Hij is weg. Zij blijft.": 2,
    "Der Termin ist am 2. Juli 9 Uhr. Bitte kommen. Danke!": 3,
    "We take plan b. Then we go.": 2,
    "Really? Yes. Sept. 5 it is.": 3,
}


@pytest.mark.parametrize("phrase", DATES)
def test_a_date_is_right_or_none(phrase: str) -> None:
    """`dated` returns the day that a phrase means, or None if two days are possible."""
    expected = DATES[phrase]
    found = dated(phrase, SAID).about
    assert (found.isoformat() if found else None) == expected


@pytest.mark.parametrize(("text", "count"), [*((text, 1) for text in WHOLE), *CUT.items()])
def test_a_stop_ends_a_sentence_or_not(text: str, count: int) -> None:
    """A full stop after an abbreviation or an ordinal number does not end the sentence. Any other full stop does."""
    found = sentences(text)
    assert (" ".join(found), len(found)) == (text, count)


def test_the_year_is_the_nearest() -> None:
    """A date without a year is in the nearest year: in January, December means the last December."""
    assert dated("am 28. Dezember", date(2026, 1, 5)).about == date(2025, 12, 28)
    assert dated("le 5 janvier", date(2026, 12, 28)).about == date(2027, 1, 5)
    assert dated("29 febbraio", date(2027, 12, 1)).about == date(2028, 2, 29)
    assert dated("1 January", date.min).about == date.min
    assert dated("31 December", date.max).about == date.max


@pytest.mark.parametrize("name", FULL_MONTHS)
def test_every_reader_knows_every_month(name: str) -> None:
    """All three functions that find dates read the names of the same table."""
    month = FULL_MONTHS[name]
    found = find_date(f"12 {name} 2026")
    assert found is not None
    assert found.day == date(2026, month, 12)
    assert {(day.month, day.day) for day in days_in(f"12 {name} 2026")} == {(month, 12)}
    assert dated(f"12 {name} 2026", SAID).about == date(2026, month, 12)


def test_the_table_is_whole() -> None:
    """The tables have twelve months and seven weekdays in lower case, and no short form is in two tables."""
    assert set(MONTHS.values()) == set(range(1, 13))
    assert set(WEEKDAYS.values()) == set(range(7))
    assert not MONTHS.keys() & RISKY_MONTHS.keys()
    assert all(name == name.lower() for name in (*MONTHS, *RISKY_MONTHS, *WEEKDAYS))
