"""Trust: whose word a line of the log is, and what it may therefore become.

Knows roles, what it means to speak for the user, and where words come from. Wording can always be varied, so the rules that
matter look at structure: who is cited, and whether only a tool's text has these words.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from memolog.domain.message import Message, ToolResultPart
from memolog.domain.observation import Observation, Priority, Trust
from memolog.domain.thread import Hints
from memolog.grounding.evidence import Evidence, is_found
from memolog.grounding.folding import content_words, folded, squeezed
from memolog.grounding.identifiers import Kind, mentions
from memolog.grounding.sources import returned_text, said_text, source_text

__all__ = [
    "Voices",
    "allowed_priority",
    "lowest",
    "speaks_for_user",
    "trust_of",
    "trusted_after_reflection",
    "trusted_hints",
    "voices_of",
]

_ORDER: Final[tuple[Trust, ...]] = ("tool", "assistant", "user")
_BY_ROLE: Final[Mapping[str, Trust]] = {"tool": "tool", "assistant": "assistant", "user": "user", "system": "assistant"}


def trust_of(message: Message) -> Trust:
    """Return whose word a message is; a result of a tool inside a user's message is a tool's."""
    if any(isinstance(part, ToolResultPart) for part in message.parts):
        return "tool"
    return _BY_ROLE.get(message.role, "tool")


def lowest(trusts: Iterable[Trust]) -> Trust:
    """Return the lowest of some trusts; of none, the lowest there is."""
    found = frozenset(trusts)
    for trust in _ORDER:
        if trust in found:
            return trust
    return "tool"


# ---------------------------------------------------------------- speaking for the user

_SUBJECT: Final = r"(?:user|human|customer|operator|principal)"
_BETWEEN: Final = (
    r"(?:\s+(?:also|now|again|already|always|never|often|just|later|then|explicitly|clearly|strongly|really|repeatedly|has|have"
    r"|had|is|was|did|does|do|not|no\s+longer|would|finally|previously|recently|additionally|specifically)){0,4}"
)
_VERBS: Final = (
    r"(?:stat|sa(?:y|id)|t(?:ell|old)|prefer|want|wish|decid|ask|request|requir|need|lik|lov|hat|dislik|confirm|approv|agree"
    r"|accept|allow|permit|authori[sz]|gave|give|grant|instruct|order|command|insist|demand|cho[os]|pick|select|plan|intend|will"
    r"|shall|must|hop|expect|believ|th(?:ink|ought)|know|promis|mention|announc|declar|explain|report|clarif|remind|reject"
    r"|refus|declin|cancel|chang|switch|mov|consent|trust|endors|direct|set|specif|describ|suggest|propos|recommend|mean|meant"
    r"|work|live|own|use|happy|fine|ok|ready|willing|looking)\w*"
)
_POSSESSIONS: Final = (
    r"(?:preference|wish|decision|request|goal|plan|choice|instruction|approval|permission|answer|order|consent|intent|will|rule"
    r"|requirement|opinion|favou?rite|name|password|address)\w*"
)
_SPEAKS: Final = re.compile(
    rf"\b{_SUBJECT}{_BETWEEN}\s+{_VERBS}|\b{_SUBJECT}(?:['’]?s?['’]?)\s+(?:\w+\s+)?{_POSSESSIONS}|\bby\s+(?:the\s+)?{_SUBJECT}\b"
    rf"|\bon\s+behalf\s+of\s+(?:the\s+)?{_SUBJECT}\b|\b(?:the\s+)?{_SUBJECT}\s*:"
)
# In other languages the subject alone has to do.
_ELSEWHERE: Final = re.compile(
    r"\b(?:nutzer|benutzer|anwender|utilisat(?:eur|rice)|usuari[oa]|utente|usuário|gebruiker|użytkowni|пользовател|користувач"
    r"|مستخدم|المستخدم)|用户|用戶|使用者|ユーザ|사용자"
)
_LONGEST: Final = 10_000


def speaks_for_user(text: str, speakers: Collection[str] = ()) -> bool:
    """Tell whether a line says what the user says, wants or has decided; `speakers` are names that users go by."""
    plain = folded(text[:_LONGEST])
    if _SPEAKS.search(plain) or _ELSEWHERE.search(plain):
        return True
    names = [re.escape(folded(name)) for name in speakers if name.strip()]
    if not names:
        return False
    return bool(re.search(rf"\b(?:{'|'.join(names)}){_BETWEEN}\s+{_VERBS}", plain))


def allowed_priority(priority: Priority, *, cites_user: bool, trust: Trust, is_for_user: bool) -> Priority:
    """Return the priority that a line may have: what no user said is not a user's statement, nor finished on their word."""
    if cites_user:
        return priority
    if priority == "high" or (priority == "done" and (is_for_user or trust == "tool")):
        return "medium"
    return priority


# ---------------------------------------------------------------- where words come from

_RUN: Final = 5
_FEW: Final = 2
_MOST_WORDS: Final = 2_000
_NAMING: Final[frozenset[Kind]] = frozenset(get_args(Kind)) - {"date", "time"}
_POINTING: Final[frozenset[Kind]] = frozenset({"url", "command", "flag"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Voices:
    """What was said by people and models, and what tools returned."""

    said: tuple[Evidence, ...]
    returned: tuple[Evidence, ...]

    def echoes_tool(self, text: str, *, share: float, least: int = 1) -> bool:
        """Tell whether a text takes its words from tools alone.

        It does if the whole of it, or a run of five of its words, was returned and never said; or if at least `least` of its
        words were, and those that were said too are no more than `share` of them; where none was said, two are enough.
        """
        if not self.returned:
            return False
        if self._copies(text):
            return True
        said, returned = 0, 0
        for word in content_words(text)[:_MOST_WORDS]:
            if _has_word(word, self.said):
                said += 1
            elif _has_word(word, self.returned):
                returned += 1
        return (returned >= least and said <= share * returned) or (not said and returned >= _FEW)

    def _copies(self, text: str) -> bool:
        words = squeezed(folded(text)).strip(".").split(".")[:_MOST_WORDS]
        size = min(_RUN, len(words))
        for start in range(len(words) - size + 1 if size > 1 else 0):
            run = f".{'.'.join(words[start : start + size])}."
            if any(one.has(run) for one in self.returned) and not any(one.has(run) for one in self.said):
                return True
        return False

    def names_from_tool(self, text: str, kinds: Collection[Kind] = _NAMING) -> bool:
        """Tell whether a text names something that only a tool named."""
        named = [mention for mention in mentions(text) if mention.kind in kinds]
        return any(is_found(mention, self.returned) and not is_found(mention, self.said) for mention in named)


def _has_word(word: str, texts: Sequence[Evidence]) -> bool:
    return any(text.has(f".{word}.") for text in texts)


def voices_of(messages: Iterable[Message], *said: str, foreign: Iterable[Message] = ()) -> Voices:
    """Return the voices in some messages; `said` is further text that was not a tool's.

    Messages of another conversation are `foreign`: whoever said them, they are no more here than a tool's text.
    """
    messages, foreign = tuple(messages), tuple(foreign)
    spoken = [*(said_text(message) for message in messages), *said]
    returned = [*(returned_text(message) for message in messages), *(source_text(message) for message in foreign)]
    return Voices(said=_evidence(spoken), returned=_evidence(returned))


def _evidence(texts: Iterable[str]) -> tuple[Evidence, ...]:
    # One text is searched much faster than many.
    whole = "\n".join(filter(None, texts))
    return (Evidence(whole),) if whole else ()


def trusted_hints(
    hints: Hints, messages: Sequence[Message], previous: Hints, *, foreign: Sequence[Message] = ()
) -> Hints:
    """Return the hints without those that only a tool's text supports: a tool gives no task, no title and no answer."""
    before = (previous.current_task, previous.suggested_response, previous.title)
    voices = voices_of(messages, *filter(None, before), foreign=foreign)
    return replace(
        hints,
        current_task=_trusted(hints.current_task, voices),
        suggested_response=_trusted(hints.suggested_response, voices),
        title=_trusted(hints.title, voices),
    )


def trusted_after_reflection(hints: Hints, lines: Sequence[Observation], previous: Hints) -> Hints:
    """Return the hints of a reflector without those that only lines of tools support."""
    before = filter(None, (previous.current_task, previous.suggested_response, previous.title))
    said = [f"{line.text}\n{line.verbatim or ''}" for line in lines if line.trust != "tool"]
    returned = [f"{line.text}\n{line.verbatim or ''}" for line in lines if line.trust == "tool"]
    voices = Voices(said=_evidence([*said, *before]), returned=_evidence(returned))
    return replace(
        hints,
        current_task=_trusted(hints.current_task, voices),
        suggested_response=_trusted(hints.suggested_response, voices),
    )


def _trusted(hint: str | None, voices: Voices) -> str | None:
    # An identifier that a tool named may well be part of a task; a way to act on it may not.
    if hint and (voices.echoes_tool(hint, share=1.0) or voices.names_from_tool(hint, _POINTING)):
        return None
    return hint
