"""What a sentence does: state, prefer, decide, plan, ask, request, confirm; or nothing but fill.

Knows the signs of each in English, and question marks of any script. Knows nothing of messages. Where the signs are missing,
a sentence is taken for a statement.
"""

import re
from typing import Final

__all__ = [
    "category_of",
    "confirms",
    "is_about_self",
    "is_ask",
    "is_filler",
    "is_opening",
    "is_request",
    "without_request",
]

_QUESTION: Final = re.compile(r"[?？؟][\"'”’)\s]*\Z")
_REQUEST: Final = re.compile(
    r"(?:(?:ok|okay|now|also|and|then|so|great|thanks|yes|hi|hello|hey)[,.!]? )*(?:please|can you|could you"
    r"|would you|will you|"
    r"help me|tell me|give me|show me|let me know|explain|write|create|make|add|fix|remove|change|update|rename"
    r"|refactor|run|"
    r"check|find|list|summari[sz]e|translate|generate|suggest|recommend|describe|compare|implement|look at|review"
    r"|continue|"
    r"provide|rewrite|convert|calculate|draft|design|build|test|delete|move|use|try|i(?:'d| would) like you to"
    r"|i want you to|"
    r"i need you to|bitte|kannst du|können sie|por favor|puedes|peux-tu|pouvez-vous|请|請|帮我)\b",
    re.IGNORECASE,
)
_POLITE: Final = re.compile(
    r"(?:(?:ok|okay|hi|hello|hey|thanks|great)[,.!]? )*(?:please |can you (?:please )?|could you (?:please )?"
    r"|would you (?:please )?|"
    r"will you (?:please )?|help me (?:to )?|i(?:'d| would) like (?:you )?to |i (?:want|need) (?:you )?to |let's "
    r"|do you know )+",
    re.IGNORECASE,
)
_SELF: Final = re.compile(
    r"\b(?:I|I'm|I've|I'd|I'll|i|i'm|i've|[Mm]y|me|mine|[Ww]e|[Ww]e're|[Ww]e've|[Oo]ur|us|[Ii]ch|[Mm]ein\w*|yo|mi"
    r"|je|mon)\b|我|私|僕|أنا|我们"
)
_DECISION: Final = re.compile(
    r"\b(?:decided|decision|let's|we'll use|going with|go with|chose|choose|switch(?:ed|ing)? (?:to|from)"
    r"|instead of|rather than|agreed|"
    r"no longer|move(?:d)? (?:to|from)|stop using|must|never|always|entschieden)\b|决定|決め",
    re.IGNORECASE,
)
_PREFERENCE: Final = re.compile(
    r"\b(?:prefer\w*|favou?rite|love|like|enjoy|hate|dislike|can't stand|allergic|into|fan of|mag|lieber|gern)\b|喜欢|好き",
    re.IGNORECASE,
)
_PLAN: Final = re.compile(
    r"\b(?:will|going to|gonna|plan(?:ning)?|i'll|we'll|intend|tomorrow|next (?:week|month|year)|upcoming"
    r"|schedul\w+|deadline|by (?:mon|tues|wednes"
    r"|thurs|fri|satur|sun)day|werde|morgen)\b|打算|予定",
    re.IGNORECASE,
)
_CONFIRMS: Final = re.compile(
    r"\b(?:(?:it|that|this|everything|all|login|build)(?: now| all)? (?:works?|worked|passes|passed)|(?:it|that"
    r"|this)(?:'s| is| was) (?:now )?(?:fixed|working|"
    r"done|solved|merged|deployed)|works (?:now|great|fine|perfectly|as expected)|tests? (?:all )?pass(?:es|ed)?"
    r"|that did it|lgtm|"
    r"problem solved|confirmed)\b",
    re.IGNORECASE,
)
_DENIES: Final = re.compile(r"\b(?:not|no|never|still|but|if|once|unless|until|\w+n't)\b|[?？؟]", re.IGNORECASE)
_FILLER: Final = re.compile(
    r"(?:(?:ok|okay|thanks|thank you|thx|great|cool|nice|perfect|awesome|sure|got it|sounds good|that's (?:great"
    r"|helpful|good|awesome)|wow|"
    r"hi|hello|hey|you're welcome|no problem|of course|absolutely|certainly|definitely|alright)(?: (?:so much|a lot"
    r"|very much|again|there|"
    r"for (?:the|your|all)(?: \w+){1,3}))?[\s,.!]*)+\Z",
    re.IGNORECASE,
)
_OPENING: Final = re.compile(
    r"(?:(?:sure|certainly|absolutely|of course|great|sorry|i apologi[sz]e|i hope|hope (?:this|that)|let me know"
    r"|feel free|i'm (?:glad|happy|sorry)|happy to|"
    r"glad|here(?:'s| is| are)|please (?:note|let)|if you (?:have|need|want|would)|that(?:'s| is) (?:a )?(?:great"
    r"|good|excellent)|you're welcome|good luck|"
    r"enjoy|remember|don't hesitate|by following|with (?:these|this)|i'd be happy|in conclusion|overall|as an ai"
    r"|congratulations|"
    r"it's (?:great|important|essential|wonderful)|would you like|do you have|what (?:do|are) you)\b"
    r"|(?:now |first,? |next,? |ok,? |okay,? |good[.,] )*(?:let me|i'll|let's|now i)\b)",
    re.IGNORECASE,
)

_LONGEST_FILLER: Final = 80


def is_ask(sentence: str) -> bool:
    """Tell whether a sentence asks or requests: it asserts nothing."""
    return bool(_QUESTION.search(sentence) or _REQUEST.match(sentence))


def is_request(sentence: str) -> bool:
    """Tell whether a sentence wants something done, also where it is put as a question."""
    return bool(_REQUEST.match(sentence))


def is_about_self(text: str) -> bool:
    """Tell whether the speaker speaks of themselves."""
    return bool(_SELF.search(text))


def is_filler(sentence: str) -> bool:
    """Tell whether a sentence is only a courtesy."""
    return len(sentence) <= _LONGEST_FILLER and bool(_FILLER.match(sentence))


def is_opening(sentence: str) -> bool:
    """Tell whether an assistant's sentence leads to what it says, or away from it, without saying it."""
    return bool(_OPENING.match(sentence))


def without_request(sentence: str) -> str:
    """Return what is asked for, without the words that ask."""
    hit = _POLITE.match(sentence)
    return sentence[hit.end() :] if hit and len(sentence) > hit.end() else sentence


def confirms(message: str) -> bool:
    """Tell whether a user says that the work is done and does what it should."""
    return any(_CONFIRMS.search(piece) and not _DENIES.search(piece) for piece in re.split(r"(?<=[.!])\s|\n", message))


def category_of(text: str) -> str:
    """Return what kind of statement this is."""
    if _DECISION.search(text):
        return "decision"
    if _PREFERENCE.search(text):
        return "preference"
    return "plan" if _PLAN.search(text) else "fact"
