"""Find text that could be read as one of Memolog's tags, with a folding of its own that undoes disguises."""

import re
import unicodedata

_TAGS = (
    "attached|calls?|conversation|current-task|day|earlier-messages|earlier-suggestion|earlier-task|extract|file|hints|late-result"
    "|left-out|log|log-end|messages?|memory-pack|missing|now|observations?|off-track|other|other-conversation|plans|reasoning|recalled"
    "|reflections?|results?|suggested-response|system|target|tasks?|thread|thread-title|title|transcript|user|assistant|tool"
    "|developer|wanted|working-memory|think|thinking"
)
_OPENING, _CLOSING = "＜﹤〈⟨〈‹❮《⟪", "＞﹥〉⟩〉›❯》⟫"
_UNDONE = str.maketrans(
    {**dict.fromkeys(_OPENING, "<"), **dict.fromkeys(_CLOSING, ">"), **dict(zip("аеорсхѕ", "aeopcxs", strict=True))}
)
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\ufe00-\ufe0f\U000e0000-\U000e01ef\x00-\x08]")
_FORGED = re.compile(rf"<[^\w<>]*(?:\w+:)?(?:{_TAGS})(?![\w-])|<[|｜][^<>\n]+[|｜]>", re.IGNORECASE)


def undone(text: str) -> str:
    """Return a text as somebody sees it who is misled by disguises; entities stay, since they are what undoes a tag."""
    plain = unicodedata.normalize("NFKD", _HIDDEN.sub("", text).translate(_UNDONE))
    return "".join(char for char in plain if not unicodedata.combining(char))


def forged(text: str) -> list[str]:
    """Return all that could be read as a tag of Memolog or of a chat template."""
    return _FORGED.findall(undone(text))
