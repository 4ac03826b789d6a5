"""Decide from whom a line of the log comes: a user, an assistant or a tool.

Since wording can be varied, the rules rely on structure: who is cited, and whether only a tool's text has these words.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, get_args

from memolog.core.message import Message, ToolResultPart
from memolog.core.observation import KEPT, Observation, Priority, Trust
from memolog.core.thread import Hints
from memolog.observer.evidence import (
    Evidence,
    has_word,
    is_english,
    is_found,
    is_spoken_by_user,
    is_word_of,
    returned_text,
    said_text,
    source_text,
)
from memolog.observer.grounding import ungrounded
from memolog.text.identifiers import Kind, content_words, folded, mentions, squeezed
from memolog.text.lookalikes import in_latin_letters

_ORDER: Final[tuple[Trust, ...]] = ("tool", "assistant", "user")
_BY_ROLE: Final[Mapping[str, Trust]] = {"tool": "tool", "assistant": "assistant", "user": "user", "system": "assistant"}


def trust_of(message: Message) -> Trust:
    """Return the trust of a message; a message with a tool result is a tool's, also a user's."""
    if any(isinstance(part, ToolResultPart) for part in message.parts):
        return "tool"
    return _BY_ROLE.get(message.role, "tool")


def lowest(trusts: Iterable[Trust]) -> Trust:
    """Return the lowest of some trusts; "tool" if there are none."""
    found = frozenset(trusts)
    for trust in _ORDER:
        if trust in found:
            return trust
    return "tool"


# ---------------------------------------------------------------- speaking for the user

_SUBJECT: Final = r"(?:user|human|customer|operator|principal)"
# Other people who may be meant: only what they want counts, not what they do.
_AUTHORITY: Final = (
    r"(?:boss|(?:account|project|product|system|repo(?:sitory)?)\s+owner|account\s+holder|person\s+asking|requester)"
)
_ASIDE: Final = r"(?:\s*\([^()]{0,60}\)|\s*,[^,]{0,60},)?"
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
_WANTING: Final = (
    r"(?:want|wish|prefer|decid|ask|request|requir|need|approv|agree|accept|allow|permit|authori[sz]|gave|give|grant|instruct"
    r"|order|insist|demand|confirm|consent|is fine|is ok|said|says|stat|t(?:ell|old))\w*"
)
_POSSESSIONS: Final = (
    r"(?:preference|wish|decision|request|goal|plan|choice|instruction|approval|permission|answer|order|consent|intent|will|rule"
    r"|requirement|opinion|favou?rite|name|password|address)\w*"
)
_SPEAKS: Final = re.compile(
    rf"\b{_SUBJECT}{_ASIDE}{_BETWEEN}\s+{_VERBS}|\b{_SUBJECT}(?:['’]?s?['’]?)\s+(?:\w+\s+)?{_POSSESSIONS}|\bby\s+(?:the\s+)?(?:{_SUBJECT}|{_AUTHORITY})\b"
    rf"|\bon\s+behalf\s+of\s+(?:the\s+)?{_SUBJECT}\b|\b(?:the\s+)?{_SUBJECT}\s*:"
    rf"|\b{_AUTHORITY}{_ASIDE}{_BETWEEN}\s+{_WANTING}"
    rf"|\b(?:agreed|arranged|settled|decided|cleared|confirmed|coordinated)\s+with\s+(?:the\s+)?{_SUBJECT}\b"
    rf"|\b(?:promised|assured|guaranteed)\s+(?:to\s+)?(?:the\s+)?{_SUBJECT}\b"
    r"|(?:\A|[.;:!?]\s)\W{0,8}as\s+(?:requested|agreed|instructed|ordered|asked|approved|authori[sz]ed|wished|decided|told)\b"
)
# In other languages the subject alone is enough.
_ELSEWHERE: Final = re.compile(
    r"\b(?:nutzer|benutzer|anwender|utilisat(?:eur|rice)|usuari[oa]|utente|usuário|gebruiker|użytkowni|пользовател|користувач"
    r"|مستخدم|المستخدم|کاربر|kullanıcı|käyttäjä|bruker|användar|bruger|uživatel|používateľ|felhasználó|utilizator|pengguna"
    r"|người dùng|χρήστη|корисни|потребител|korisni[kc]|kasutaja|vartotoj|lietotāj|ה?משתמש|उपयोगकर्ता|ব্যবহারকারী|பயனர்)"
    r"|用户|用戶|使用者|ユーザ|사용자|ผู้ใช้"
)
_LONGEST: Final = 10_000
_SHORTEST_NAME: Final = 3


def speaks_for_user(text: str, speakers: Collection[str] = (), owners: Collection[str] = ()) -> bool:
    """Return whether a line says what the user says, wants or has decided.

    `speakers` are names that users go by. `owners` are names under which memory is kept: mostly a user's, but maybe a project's.
    """
    plain = folded(text[:_LONGEST])
    if _SPEAKS.search(plain) or _ELSEWHERE.search(plain):
        return True
    if not plain.isascii() and _SPEAKS.search(in_latin_letters(plain)):
        return True
    return _names(plain, speakers, _VERBS) or _names(plain, owners, _WANTING)


def _names(plain: str, names: Collection[str], verbs: str) -> bool:
    """Return whether a text attributes one of these verbs to one of the names."""
    known = [re.escape(folded(name)) for name in names if len(name.strip()) >= _SHORTEST_NAME]
    return bool(known) and bool(re.search(rf"\b(?:{'|'.join(known)}){_ASIDE}{_BETWEEN}\s+{verbs}", plain))


def allowed_priority(priority: Priority, *, is_backed: bool) -> Priority:
    """Return the priority that a line may have: only lines backed by a user's words may be statements or finished work."""
    return "medium" if priority in KEPT and not is_backed else priority


# ---------------------------------------------------------------- where words come from

_RUN: Final = 5
_FEW: Final = 2
_MOST_WORDS: Final = 2_000
_NAMING: Final[frozenset[Kind]] = frozenset(get_args(Kind)) - {"date", "time"}
POINTING: Final[frozenset[Kind]] = frozenset({"url", "command", "flag"})
"""Kinds of mentions that say how to act; a tool must not give them to a hint or a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voices:
    """Texts by origin: what users and models said, and what tools returned."""

    said: tuple[Evidence, ...]
    returned: tuple[Evidence, ...]
    by_user: tuple[Evidence, ...] | None = None
    """What users said, if known: a word that a tool returned and a model repeated is the tool's."""

    def echoes_tool(self, text: str, *, share: float, least: int = 1) -> bool:
        """Return whether a text takes its words from tools alone.

        It does if the whole of it, or a run of five of its words, was returned and never said; or if at least `least` of its
        words were, and those that were said too are no more than `share` of them; where none was said, two are enough.
        """
        if not self.returned:
            return False
        if self.copies_tool(text):
            return True
        said, returned = 0, 0
        first = self.said if self.by_user is None else self.by_user
        for word in content_words(text)[:_MOST_WORDS]:
            if has_word(word, first):
                said += 1
            elif has_word(word, self.returned):
                returned += 1
            elif has_word(word, self.said):
                said += 1
        return (returned >= least and said <= share * returned) or (not said and returned >= _FEW)

    def copies_tool(self, text: str) -> bool:
        """Return whether five words of a text, or all of fewer, were returned side by side and never said."""
        words = squeezed(folded(text)).strip(".").split(".")[:_MOST_WORDS]
        size = min(_RUN, len(words))
        for start in range(len(words) - size + 1 if size > 1 else 0):
            run = f".{'.'.join(words[start : start + size])}."
            if any(one.has(run) for one in self.returned) and not any(one.has(run) for one in self.said):
                return True
        return False

    def names_from_tool(self, text: str, kinds: Collection[Kind] = _NAMING) -> bool:
        """Return whether a text names something that only a tool named."""
        named = [mention for mention in mentions(text) if mention.kind in kinds]
        return any(is_found(mention, self.returned) and not is_found(mention, self.said) for mention in named)


def voices_of(
    messages: Iterable[Message], *said: str, foreign: Iterable[Message] = (), log: Iterable[Observation] = ()
) -> Voices:
    """Return the voices in some messages and lines of the log; `said` is further text that is as good as a user's.

    `foreign` are messages of another conversation, which count as text of a tool.
    """
    messages, foreign, log = tuple(messages), tuple(foreign), tuple(log)
    by_user = [*(said_text(message) for message in messages if is_spoken_by_user(message)), *said]
    by_user += [line_text(line) for line in log if is_of_user(line)]
    others = [said_text(message) for message in messages if not is_spoken_by_user(message)]
    others += [line_text(line) for line in log if not is_of_user(line) and not is_of_tool(line)]
    returned = [*map(returned_text, messages), *map(source_text, foreign)]
    returned += [line_text(line) for line in log if is_of_tool(line)]
    return Voices(said=evidence_of([*by_user, *others]), returned=evidence_of(returned), by_user=evidence_of(by_user))


def line_text(line: Observation) -> str:
    """Return the words of a line, with those that stand under it."""
    return f"{line.text}\n{line.verbatim}" if line.verbatim else line.text


def is_of_user(line: Observation) -> bool:
    """Return whether a line of the log counts as a user's statement: it cites users alone, or code found it to be one."""
    return not is_false(line) and (line.trust == "user" or line.priority in KEPT)


def is_of_tool(line: Observation) -> bool:
    """Return whether a line of the log counts as text of a tool."""
    return not is_of_user(line) and (line.trust == "tool" or is_false(line))


def is_false(line: Observation) -> bool:
    """Return whether code found that a line claims to be a user's statement and is not."""
    return any(line.metadata.get(name) for name in ("speaks_for_user", "unverified"))


def evidence_of(texts: Iterable[str]) -> tuple[Evidence, ...]:
    """Return some texts joined as one evidence; empty if there is no text."""
    # One text is searched much faster than many.
    whole = "\n".join(filter(None, texts))
    return (Evidence(whole),) if whole else ()


# ---------------------------------------------------------------- whether a user said so

_CLAUSE: Final = re.compile(r"[.;!?](?=\s|\Z)|[。；！？\n]")
_ASSISTANTS: Final = re.compile(r"\W*(?:(?:the )?(?:assistant|agent|tool)\b|->|→)", re.IGNORECASE)
# Words that report that something was said, not what.
_SAYING_WORDS: Final = """
    agreed agrees announced asking claimed clarified confirms declined described explained explicitly insisted instructed
    likes mentioned noted notes planned plans promised reminded repeated replied reported requests suggested thinks wanted wished
    wishes wrote authorized approves approving permission allowed regarding meaning instead
"""
_SAYING: Final = frozenset(_SAYING_WORDS.split())
# Common words: sharing them with a text does not show that a line comes from it.
_CHANCE_WORDS: Final = """
    able again against already always among amount another area around ask available away back become best better between big
    can case clear come comes common complete content current currently date day days detail details different early easy else end
    english enough entire even ever every everything example exist fact far few find first five following four free full future
    general get gets getting give given gives good got great half hand help helps high hour hours however idea important include
    includes including information inside instead interested item items keep keeps kind know known knows large last late later
    least less life like list little live lives local long longer look looking looks lot low made main make makes making many
    matter mean means might minute month months much name named near never new next nice none nothing number often old one open
    order part people person place point possible problem question quite rather ready real really recent related result right
    section see seem seems several short shows side since single site small someone something soon sort start starts state still
    sure take taken takes taking ten text thing things think three time times today together tomorrow tonight top topic toward
    towards try two type under until upcoming used user using usually version way week weekly weeks well while whole within
    without word words work working works world year years yesterday young
"""
_BY_CHANCE: Final = frozenset(_CHANCE_WORDS.split())
LEAST_SHARE: Final = 0.3
_LEAST_CLAUSE: Final = 3
# Kinds that a model must not take over from a tool; it may need the others to say what "it" is.
_FOREIGN: Final[frozenset[Kind]] = frozenset({"url", "command", "flag", "quote", "name"})


def _claimed(text: str) -> list[str]:
    """Return the clauses of a line that claim a user's word: all but those that say what the assistant or a tool did.

    A line that says nothing else claims it for all of that.
    """
    clauses = [clause.strip() for clause in _CLAUSE.split(text) if clause.strip()]
    theirs = [clause for clause in clauses if not _ASSISTANTS.match(clause) or speaks_for_user(clause)]
    return theirs or clauses


def is_backed(
    text: str,
    cited: Evidence,
    voices: Voices,
    *,
    share: float = LEAST_SHARE,
    confirms: bool = False,
    asked: Sequence[Evidence] = (),
) -> bool:
    """Return whether what a line claims comes from what users said in the messages that it cites.

    So much of its words must be there, and some of each longer clause, unless users said them elsewhere; and it has no word
    that a tool said and no user. Where no tool said anything, only words of the assistant count against it. `confirms` says
    that a user confirmed what the assistant did: then the assistant's words do not count against it. `asked` is what the user
    answers in these messages: a tool's word may be in it.
    """
    claims = _claimed(text)
    clauses = [_clause_words(clause) for clause in claims]
    words = tuple(dict.fromkeys(word for clause in clauses for word in clause))
    if not words:
        return True
    known = voices.by_user or ()
    users = Voices(said=(cited, *known), returned=voices.returned)
    if users.copies_tool(" ".join(claims)) or users.names_from_tool(text, _FOREIGN):
        return False
    both = replace(users, said=(*users.said, *voices.said))
    if both.names_from_tool(text, _NAMING - _FOREIGN):
        return False
    mine = {word for word in words if is_word_of(word, (cited,))}
    elsewhere = {word for word in words if word not in mine and is_word_of(word, known)}
    rest = [word for word in words if word not in mine and word not in elsewhere]
    returned = {word for word in rest if is_word_of(word, voices.returned)}
    spoken = {word for word in rest if word not in returned and is_word_of(word, voices.said)}
    if not rest:
        return True
    if confirms:
        rest = [word for word in rest if word not in spoken]
    if _is_translated(text, cited):
        # Words cannot be compared and a tool may have said it: a shared name or number shows that it is the user's.
        is_theirs = bool(mine or elsewhere) and len(returned) < _FEW
        return is_theirs if voices.returned else len(spoken) < len(words)
    if not voices.returned:
        return bool(mine or elsewhere or not voices.said or confirms) and len(mine) >= share * (len(mine) + len(spoken))
    longer = [clause for clause in clauses if len(clause) >= _LEAST_CLAUSE]
    is_known = mine.union(elsewhere, spoken if confirms else ())
    # A tool's words stay the tool's, however many words of the user stand beside them.
    foreign = {word for word in returned - _BY_CHANCE if not is_word_of(word, asked)}
    if foreign or not all(is_known.intersection(clause) for clause in longer):
        return False
    return len(mine) >= share * (len(mine) + len(rest)) and bool(mine or elsewhere or confirms)


def _clause_words(clause: str) -> tuple[str, ...]:
    return tuple(word for word in content_words(clause)[:_MOST_WORDS] if word not in _SAYING)


def _is_translated(text: str, cited: Evidence) -> bool:
    """Return whether a line is in English and its sources are not: models translate to English, never from it."""
    line = Evidence(text)
    if line.is_latin and cited.is_latin is False:
        return True
    return bool(line.is_latin and cited.is_latin) and is_english(line) is True and is_english(cited) is False


# ---------------------------------------------------------------- hints


def trusted_hints(
    hints: Hints,
    messages: Sequence[Message],
    previous: Hints,
    *,
    foreign: Sequence[Message] = (),
    log: Sequence[Observation] = (),
) -> Hints:
    """Return the hints that the messages and the log support: a tool gives no task, no title and no answer.

    A reflector reads lines of the log and no messages.
    """
    before = (previous.current_task, previous.suggested_response, previous.title)
    voices = voices_of(messages, *filter(None, before), foreign=foreign, log=log)
    said_at = [message.created_at for message in messages] or [line.said_at for line in log if line.said_at]
    task = _trusted(hints.current_task, voices, said_at)
    if task and not _may_be_users(task, voices):
        task = None
    return replace(
        hints,
        current_task=task,
        suggested_response=_trusted(hints.suggested_response, voices, said_at),
        title=_trusted(hints.title, voices, said_at),
    )


def _trusted(hint: str | None, voices: Voices, said_at: Sequence[datetime]) -> str | None:
    if not hint:
        return hint
    # A task may contain an identifier that a tool named, but not a URL, command or flag.
    if voices.echoes_tool(hint, share=1.0) or voices.names_from_tool(hint, POINTING):
        return None
    return None if _invented(hint, voices, said_at) else hint


def _invented(hint: str, voices: Voices, said_at: Sequence[datetime]) -> bool:
    """Return whether a hint names something to act on that no message names."""
    missing = ungrounded(hint, [*voices.said, *voices.returned], said_at=said_at)
    return any(mention.text in missing for mention in mentions(hint) if mention.kind in _ACTED_ON)


_ACTED_ON: Final[frozenset[Kind]] = frozenset({"url", "command", "flag", "path", "hash"})


def _may_be_users(task: str, voices: Voices) -> bool:
    """Return whether a task can come from users: it has a word of theirs, or no tool spoke and it has none of the assistant's."""
    words = _clause_words(task)
    by_user = voices.by_user or ()
    if not words or any(is_word_of(word, by_user) for word in words):
        return True
    if any(_is_translated(task, text) for text in by_user):
        return True
    return not voices.returned and not any(is_word_of(word, voices.said) for word in words)
