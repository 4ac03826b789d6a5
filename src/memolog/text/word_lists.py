"""Word lists that several modules share: English function words, number words, words for "nothing", and ranges of scripts.

The names of months and weekdays are in `memolog.text.dates`.
"""

from typing import Final


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, which are separated by spaces or line ends."""
    return frozenset(text.split())


FUNCTION_WORDS: Final = word_set("""
    a about above after again all also am an and any are as at be because been before being below between both but by can
    could did do does doing down during each few for from further had has have having he her here hers him his how i if in into
    is it its itself just me more most my no nor not of off on once only or other our out over own same she should so some such
    than that the their them then there these they this those through to too under until up very was we were what when where
    which while who whom why will with would you your yours
    """)
"""English function words: words of grammar, such as articles, pronouns and prepositions."""

_NUMBER_WORDS: Final = """
    en zero one two three four five six seven eight nine ten eleven twelve
    de null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf
    es cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce
    fr zéro un deux trois quatre cinq six sept huit neuf dix onze douze
    it zero uno due tre quattro cinque sei sette otto nove dieci undici dodici
    pt zero um dois três quatro cinco seis sete oito nove dez onze doze
    nl nul een twee drie vier vijf zes zeven acht negen tien elf twaalf
    """
NUMBER_WORDS: Final = {row[0]: tuple(row[1:]) for row in map(str.split, _NUMBER_WORDS.strip().split("\n"))}
"""The words for zero to twelve in each language. The index of a word is its value."""

NOTHING: Final = r"none|null|nil|n/?a|n\.a\.|nothing|nichts|keine?|rien|nada|ничего|无|没有|なし"
"""Words that a model writes if there is no value, as alternatives of a regular expression."""

MEANING: Final = r"[(（](?:meaning|means|i\.e\.|estimated|about|d\.h\.|即|意为)[:：]?"
"""The beginning of a computed date in an observation, such as `(meaning 2026-03-14)`, as a regular expression."""

QUESTION_MARKS: Final = ("?", "？", "؟")

UNSPACED_LETTERS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words, as ranges for a character class."""
UNSPACED: Final = f"{UNSPACED_LETTERS}\uac00-\ud7af"
"""The same ranges and Hangul, where particles are attached to words without a space."""
