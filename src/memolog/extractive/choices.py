"""Resolve what a user's words refer to: list items chosen by number or description, and proposals that are agreed to.

Reads English, German, Spanish, French, Italian, Portuguese and Dutch, and the counters of Japanese and Chinese.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from memolog.domain.word_lists import NUMBER_WORDS, QUESTION_MARKS
from memolog.extractive.lists import Entry, Listing
from memolog.extractive.words import STOP, words_of

__all__ = ["asks_something", "chooses", "described", "describes", "numbered", "proposal_in"]

_NAMES: Final = (
    "number|no\\.|option|item|choice|idea|nummer|nr\\.|variante|vorschlag|punkt|número|opción|numéro|n[°º]|numero|opzione|opção"
    "|optie|keuze"
)
_ARTICLES: Final = "the|die|der|das|den|la|el|le|il|lo|las|los|les|a|o|as|os|de|het"
# Words that may follow the number of an item; before other words a number counts or dates something.
_FOLLOWS: Final = (
    "sounds?|looks?|seems?|feels?|works?|is|are|was|would|please|then|for|it|we|i|and|or|but|maybe|too|also"
    "|klingt|klingen|ist|sind|wäre|wären|gefällt|gefallen|passt|passen|nehmen|nehme|finde|bitte|und|oder|aber|für|wir|ich"
    "|me|nos|nous|suena|suenan|parece|parecen|es|son|por|para|y|pero|semble|est|sont|va|vont|s'il|et|ou|mais|pour"
    "|mi|ci|ti|sembra|sembrano|è|sono|le|la|li|lo|e|o|ma|per|é|são|mas|klinkt|lijkt|zijn|en|of|maar|voor"
)
_END: Final = rf"(?=\s*(?:\Z|[;!?)…。！、]|[.,](?!\d)|(?:{_FOLLOWS})\b))"
# A number after one of these words is an hour, a day or a page.
_MEASURES: Final = re.compile(
    r"\b(?:at|by|until|till|from|to|since|of|on|in|um|bis|von|vom|ab|seit|gegen|am|zum|a las?|desde|hasta|del|al|à|du"
    r"|au|alle|dalle"
    r"|dal|às|om|tot|van|op|page|chapter|day|room|version|seite|tag|día|jour|giorno|dia|dag)\s\Z",
    re.IGNORECASE,
)
_ORDINAL_WORDS: Final = (
    ("first", "erste[nrs]?", "primer[ao]?", "premi(?:er|ère)", "prim[ao]", "primeir[ao]", "eerste"),
    ("second", "zweite[nrs]?", "segund[ao]", "deuxième", "second[aoe]", "tweede"),
    ("third", "dritte[nrs]?", "tercer[ao]?", "troisième", "terz[ao]", "terceir[ao]", "derde"),
    ("fourth", "vierte[nrs]?", "cuart[ao]", "quatrième", "quart[ao]", "vierde"),
    ("fifth", "fünfte[nrs]?", "quint[ao]", "cinquième", "vijfde"),
    ("sixth", "sechste[nrs]?", "sext[ao]", "sixième", "sest[ao]", "zesde"),
    ("seventh",),
    ("eighth",),
    ("ninth",),
    ("tenth",),
)
_LAST: Final = "last|letzte[nrs]?|últim[ao]|derni(?:er|ère)|ultim[ao]|laatste"
_ORDINAL: Final = "|".join(words for row in _ORDINAL_WORDS for words in row)
_REFERENCE: Final = re.compile(
    rf"(?:\b(?:{_NAMES})\s?|#)(?P<named>\d{{1,2}})\b(?![.,]\d|%)"
    rf"|(?<![\w.,:/€$£-])(?:(?:{_ARTICLES}) )?(?P<bare>\d{{1,2}})(?![\w%€$£°]){_END}"
    r"|(?P<counter>\d{1,2}|[一二三四五六七八九])(?:番(?!線|地|街|組)|つ目|号(?!室|線))"
    r"|第(?P<place>[一二三四五六七八九]|\d)(?:个|個)"
    rf"|\b(?:{_ARTICLES}) (?P<ordinal>{_ORDINAL}|{_LAST})(?: (?:one|option|item|choice|idea|suggestion)\b|{_END})",
    re.IGNORECASE,
)
_FIRST_FEW: Final = re.compile(r"\bthe first (two|three|four|five|[2-5])\b(?! \w+s\b)", re.IGNORECASE)
_DIGITS: Final = "一二三四五六七八九"
_CHOOSES: Final = re.compile(
    r"\b(?:take|taking|pick(?:ed)?|choose|chose|go(?:ing)? (?:with|for)|went with|prefer|like|love|want|try|sounds?|looks?|seems?"
    r"|works|perfect|great|good|please|for (?:now|me|us)|it is|let['’]s|booked|keep|definitely|obviously"
    r"|nehm\w*|wähl\w*|bevorzug\w*|lieber|gefällt|gefallen|klingt|klingen|passt|perfekt|bitte|machen wir|möchte\w*|wollen"
    r"|elij\w*|eleg\w*|escoj\w*|cojo|cogemos|prefier\w*|gusta\w*|encanta\w*|quedo|quedamos|quiero|queremos"
    r"|perfect[ao]|mejor|hacemos"
    r"|prends|prenons|choisi\w*|préfèr\w*|va pour|plaît|plaisent|aime\w*|veux|voudr\w+|parfait\w*|faisons|tente\w*"
    r"|prend\w*|scelg\w*|scegli\w*|prefer\w*|piac\w*|va bene|vada per|facci\w*|perfett\w*|vogli\w*|meglio"
    r"|escolh\w*|prefir\w*|gost\w*|fic(?:o|amos) com|quer\w*|perfeit[ao]|neem|nemen|kies|kiezen|liever|leuk|klinkt|graag)\b"
    r"|にします|にする|がいい|お願い|を選|好き|选|要|喜欢",
    re.IGNORECASE,
)
_WHICH: Final = re.compile(
    r"\W*(?:(?:and|but|so|und|y|et|e) )?(?:what|which|who|where|how|when|why|is|are|was|do|does|did|can|could|should|would|will"
    r"|welche\w*|was|wie|wo|ist|sind|kann|qué|cuál\w*|cómo|quel\w*|comment|est-ce|qual\w*|cosa|come|wat|welke|hoe)\b",
    re.IGNORECASE,
)
_ONLY_NUMBERS: Final = re.compile(
    r"\W*\d{1,2}(?:(?:\W+|\W+(?:and|und|y|et|e|en|or|oder|o|ou|of)\W+)\d{1,2})*\W*\Z", re.IGNORECASE
)
_DESCRIBES: Final = re.compile(
    r"\b(?:the|that|this) (?P<one>(?:[\w'’-]+ ){1,6}?)ones?\b(?! of\b)"
    r"|\b(?:celui|celle|ceux|celles|quell[oaie]|aquel(?:la)?|the ones?) (?P<which>(?:[\w'’-]+ ?){1,6})",
    re.IGNORECASE,
)
_STEM: Final = 5


def chooses(sentence: str) -> bool:
    """Return whether a sentence chooses an item by its number, also where it continues as a question."""
    return bool(
        _CHOOSES.search(sentence) and not _WHICH.match(sentence) and next(_references(sentence, is_choice=True), None)
    )


def _references(text: str, *, is_choice: bool) -> Iterator[tuple[int, bool]]:
    """Yield the numbers of items that a text names, 0 for the last one, and whether it calls them numbers.

    Bare numbers are read in a choice only.
    """
    for hit in _FIRST_FEW.finditer(text):
        last = int(hit[1]) if hit[1].isdecimal() else NUMBER_WORDS["en"].index(hit[1].lower())
        yield from ((number, False) for number in range(1, last + 1))
    for hit in _REFERENCE.finditer(text):
        if hit["named"]:
            yield int(hit["named"]), True
        elif sign := hit["counter"] or hit["place"]:
            yield _DIGITS.index(sign) + 1 if sign in _DIGITS else int(sign), True
        elif hit["ordinal"]:
            word = hit["ordinal"]
            if is_choice or hit[0].endswith(("one", "option", "item", "choice", "idea", "suggestion")):
                yield next((place for place, words in enumerate(_ORDINAL_WORDS, 1) if _is_one(word, words)), 0), False
        elif is_choice and not _MEASURES.search(text[: hit.start()]):
            yield int(hit["bare"]), False


def _is_one(word: str, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(pattern, word, re.IGNORECASE) for pattern in patterns)


def numbered(text: str, listings: Sequence[Listing], question: str, *, is_last: bool) -> list[tuple[Entry, Listing]]:
    """Return the items that a user names by their number, where one list alone has it.

    Numbers alone are a choice, unless the `question` before them asks how many. Where the lists do not stand in the last
    answer (`is_last`), only what is called a number points at them.
    """
    only = bool(_ONLY_NUMBERS.match(text)) and not _HOW_MANY.search(question)
    found: dict[int, tuple[Entry, Listing]] = {}
    for number, is_named in _references(text, is_choice=only or bool(_CHOOSES.search(text))):
        if not is_last and not is_named:
            continue
        places = [(entry, one) for one in listings for entry in one.entries if entry.number == number]
        if not number and len(listings) == 1:
            places = [(listings[0].entries[-1], listings[0])]
        if len(places) == 1:
            found.setdefault(places[0][0].number, places[0])
    return list(found.values())


_HOW_MANY: Final = re.compile(
    r"\b(?:how (?:many|much|long|old|often)|wie ?viele?|wie (?:lange|oft|alt)|cuánt\w*|combien|quant\w*|hoeveel)\b"
    r"|何[^？]{0,200}？|いくつ|几|多少",
    re.IGNORECASE,
)


def describes(sentence: str) -> bool:
    """Return whether a sentence describes one of several things: "the blue one"."""
    return bool(_DESCRIBES.search(sentence))


def described(sentence: str, listings: Sequence[Listing]) -> list[tuple[Entry, Listing]]:
    """Return the item that a sentence describes; all items of the last list if none or several match."""
    hit = _DESCRIBES.search(sentence)
    if hit is None or not listings:
        return []
    wanted = _stems(hit["one"] or hit["which"])
    scored = [
        (len(wanted & _stems(" ".join((entry.text, *entry.details)))), entry, one)
        for one in listings
        for entry in one.entries
    ]
    most = max(score for score, _, _ in scored)
    best = [(entry, one) for score, entry, one in scored if score == most]
    if most and len(best) == 1:
        return best
    return [(entry, listings[-1]) for entry in listings[-1].entries]


def _stems(text: str) -> set[str]:
    return {word.lower()[:_STEM] for word in words_of(text) if word.lower() not in STOP}


# ---------------------------------------------------------------- proposals

_PROPOSES: Final = re.compile(
    r"\b(?:i['’]d|i would|we could|we should|you could|you can|you should|i (?:suggest|recommend|propose|advise)"
    r"|let['’]s|shall (?:i|we)"
    r"|best|easiest|simplest|better to|why not|how about|ich würde|ich schlage|schlage vor|am besten|wir (?:könnten|sollten)"
    r"|sugiero|propongo|recomiendo|te aconsejo|lo mejor|podrías|podemos|je (?:propose|suggère|recommande|conseille|ferais)"
    r"|le mieux|tu pourrais|vous pourriez|on pourrait|suggerisco|consiglio|conviene|potresti|potremmo|meglio"
    r"|sugiro|recomendo|o melhor|poderia|ik (?:stel|zou|raad)|het beste|laten we)\b|ましょう|おすすめ|建议|不如",
    re.IGNORECASE,
)
_VACUOUS_WORDS: Final = """
    shall go on ok okay alright sound sounds good right work works think like want proceed continue start carry ahead fine
    agree make sense prefer weiter soll machen gut recht einverstanden passt sigo seguimos adelante bien parece convient
    vas va bene procedo così continuo pode ser goed akkoord zal doorgaan anything else one ones which sonst noch etwas
    algo más autre chose altro mais alguma coisa verder nog iets
"""
_VACUOUS: Final = frozenset(_VACUOUS_WORDS.split())


def proposal_in(sentences: Sequence[str]) -> str:
    """Return what the sentences of an answer propose: the question at their end, or the last one that proposes something."""
    if sentences and asks_something(sentences[-1]):
        return sentences[-1]
    return next((one for one in reversed(sentences) if _PROPOSES.search(one) and not one.endswith(QUESTION_MARKS)), "")


def asks_something(sentence: str) -> bool:
    """Return whether a sentence is a question that says what it is about: "Shall I go on?" does not."""
    return sentence.endswith(QUESTION_MARKS) and (
        " " not in sentence
        or any(word.lower() not in STOP and word.lower() not in _VACUOUS for word in words_of(sentence))
    )
