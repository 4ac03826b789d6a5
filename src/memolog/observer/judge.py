"""Decide whether a line of the log comes from a user, the assistant or a tool, and compare the line with the messages it cites.

A line without support is flagged, lowered in priority or dropped, but its text is never changed. An attacker can
choose any wording, so the rules check who is cited and whether the words of a line occur only in tool results.
"""

import difflib
import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import groupby
from typing import Final, Literal, TypeAlias, get_args

from memolog.core.cache import remembered
from memolog.core.deadline import at_once
from memolog.core.message import Message, ToolResultPart, pairs_of
from memolog.core.observation import CODE_METADATA, KEPT, Observation, Trust
from memolog.core.thread import Hints
from memolog.observer.drafts import Draft
from memolog.observer.evidence import (
    Evidence,
    evidence_in,
    has_word,
    is_english,
    is_found,
    is_spoken_by_user,
    is_word_of,
    joined,
    returned_text,
    said_text,
    source_text,
    together,
    ungrounded,
    words_of,
)
from memolog.text.identifiers import Kind, content_words, dotted_words, folded, mentions
from memolog.text.lookalikes import in_latin_letters

_ORDER: Final[tuple[Trust, ...]] = ("tool", "assistant", "user")
_BY_ROLE: Final[Mapping[str, Trust]] = {"tool": "tool", "assistant": "assistant", "user": "user", "system": "assistant"}


def trust_of(message: Message) -> Trust:
    """Return the trust of a message. A message with a tool result has the trust "tool", even if its role is "user"."""
    if any(isinstance(part, ToolResultPart) for part in message.parts):
        return "tool"
    return _BY_ROLE.get(message.role, "tool")


def lowest(trusts: Iterable[Trust]) -> Trust:
    """Return the lowest trust; "tool" if `trusts` is empty."""
    return _ORDER[min(map(_ORDER.index, trusts), default=0)]


# ---------------------------------------------------------------- lines that speak for the user

_SUBJECT: Final = r"(?:user|human|customer|operator|principal)"
# Words that may refer to the user or to another person. They count only together with a verb of wanting or saying.
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
# In other languages the word for "user" alone is enough, because there is no list of verbs.
_ELSEWHERE: Final = re.compile(
    r"\b(?:nutzer|benutzer|anwender|utilisat(?:eur|rice)|usuari[oa]|utente|usuário|gebruiker|użytkowni|пользовател|користувач"
    r"|مستخدم|المستخدم|کاربر|kullanıcı|käyttäjä|bruker|användar|bruger|uživatel|používateľ|felhasználó|utilizator|pengguna"
    r"|người dùng|χρήστη|корисни|потребител|korisni[kc]|kasutaja|vartotoj|lietotāj|ה?משתמש|उपयोगकर्ता|ব্যবহারকারী|பயனர்)"
    r"|用户|用戶|使用者|ユーザ|사용자|ผู้ใช้"
)
# Every match of `_SPEAKS` contains one of the first strings, and every match of `_ELSEWHERE` in ASCII one of the second. Most
# lines contain none of them, and looking for them takes much less time than the patterns.
_SPEAKING_SIGNS: Final = (
    "user", "human", "customer", "operator", "principal", "boss", "owner", "holder", "asking", "requester", "requested", "agreed",
    "instructed", "ordered", "asked", "approved", "authori", "wished", "decided", "told",
)  # fmt: skip
_ASCII_SIGNS: Final = (
    "nutzer", "anwender", "utilisat", "usuari", "utente", "gebruiker", "bruker", "bruger", "utilizator", "pengguna", "korisni",
    "kasutaja", "vartotoj",
)  # fmt: skip
_LONGEST: Final = 10_000  # maximum characters of a line that are searched
_SHORTEST_NAME: Final = 3
_FEW_SUBJECTS: Final = 32  # the patterns for the names of so many conversations are cached


def speaks_for_user(text: str, speakers: Collection[str] = (), owners: Collection[str] = ()) -> bool:
    """Return whether a line states that the user said, wants or decided something.

    `speakers` are the names of users in the messages. `owners` are names of resources. A resource can be a project, so the name
    of an owner counts only together with a verb of wanting or saying.
    """
    plain = folded(text[:_LONGEST])
    if _speaks(plain):
        return True
    if plain.isascii():
        if _has_any(plain, _ASCII_SIGNS) and _ELSEWHERE.search(plain):
            return True
    elif _ELSEWHERE.search(plain) or _speaks(in_latin_letters(plain)):
        return True
    return _has_subject(plain, speakers, _VERBS) or _has_subject(plain, owners, _WANTING)


def _has_any(plain: str, signs: Iterable[str]) -> bool:
    for sign in signs:  # noqa: SIM110 - each line asks several times, and a generator takes twice the time of a loop
        if sign in plain:
            return True
    return False


def _speaks(plain: str) -> bool:
    return _has_any(plain, _SPEAKING_SIGNS) and _SPEAKS.search(plain) is not None


def _has_subject(plain: str, names: Collection[str], verbs: str) -> bool:
    if not names:
        return False
    folded_names, pattern = _subjects((frozenset(names), verbs))
    return _has_any(plain, folded_names) and pattern.search(plain) is not None


@remembered(_FEW_SUBJECTS)
def _subjects(given: tuple[frozenset[str], str]) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return the folded names that are long enough, and the pattern for one of them before a verb."""
    names, verbs = given
    plain = tuple(sorted(folded(name) for name in names if len(name.strip()) >= _SHORTEST_NAME))
    return plain, re.compile(rf"\b(?:{'|'.join(map(re.escape, plain))}){_ASIDE}{_BETWEEN}\s+{verbs}")


# ---------------------------------------------------------------- origin of words

_COPIED_WORDS: Final = 5  # this many neighbouring words of a tool result are a copy
_FEW: Final = 2
_MOST_WORDS: Final = 2_000  # maximum number of words of a line that are compared
_NAMING: Final[frozenset[Kind]] = frozenset(get_args(Kind)) - {"date", "time"}
POINTING: Final[frozenset[Kind]] = frozenset({"url", "command", "flag"})
"""Kinds of mentions that tell an agent how to act. They are not copied from a tool result into a hint or working memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voices:
    """Texts by origin: the words of users and models, and the results of tools."""

    said: tuple[Evidence, ...]
    returned: tuple[Evidence, ...]
    by_user: tuple[Evidence, ...] | None = None
    """The words of users; None if unknown. If they are known, a tool's word that a model repeated counts as the tool's word."""

    def echoes_tool(self, text: str, *, share: float, least: int = 1) -> bool:
        """Return whether the words of a text come from tools.

        One of three conditions is enough:
        - The text copies a tool (see `copies_tool`).
        - At least `least` words come from tools, and at most `share` times as many from users and models.
        - At least two words come from tools, and none from users and models.
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
        """Return whether five neighbouring words of a text occur in a tool result, but not in the words of users or models.

        If a text has only two to four words, the tool result must contain all of them side by side.
        """
        if not self.returned:
            return False
        words = dotted_words(text).strip(".").split(".")[:_MOST_WORDS]
        size = min(_COPIED_WORDS, len(words))
        # Most lines repeat words that were said here, and then all of their phrases were.
        if size <= 1 or _is_in(f".{'.'.join(words)}.", self.said):
            return False
        for one in self.returned:
            known = 0  # the number of words up to this one, without a gap, that the tool returned
            for end, word in enumerate(words, start=1):
                known = known + 1 if word in one.words else 0
                if known < size:
                    continue
                phrase = f".{'.'.join(words[end - size : end])}."
                # Most phrases were said here, in a text that is usually shorter than that of tools and of other conversations.
                if not _is_in(phrase, self.said) and phrase in one.dotted_words:
                    return True
        return False

    def names_from_tool(self, text: str, kinds: Collection[Kind] = _NAMING) -> bool:
        """Return whether a text has a mention of one of these kinds that occurs only in tool results."""
        if not self.returned:
            return False
        named = [mention for mention in mentions(text) if mention.kind in kinds]
        return any(is_found(mention, self.returned) and not is_found(mention, self.said) for mention in named)


def _is_in(phrase: str, texts: Sequence[Evidence]) -> bool:
    """Return whether one of the texts contains a phrase in the form of `dotted_words`."""
    return any(text.has(phrase) for text in texts)


NO_VOICES: Final = Voices(said=(), returned=(), by_user=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The texts of messages by origin. Several checks of a reply need them, with different other texts."""

    by_user: tuple[Evidence, ...]
    others: tuple[Evidence, ...]
    """The words of messages that no user wrote."""
    returned: tuple[Evidence, ...]


def spoken_in(messages: Sequence[Message]) -> Spoken:
    """Return the texts of messages by origin."""
    return Spoken(
        by_user=evidence_of(said_text(message) for message in messages if is_spoken_by_user(message)),
        others=evidence_of(said_text(message) for message in messages if not is_spoken_by_user(message)),
        returned=evidence_of(map(returned_text, messages)),
    )


def voices_of(spoken: Spoken, *said: str, foreign: Sequence[Evidence] = (), log: Voices = NO_VOICES) -> Voices:
    """Return the texts of messages by origin, together with those of other conversations and of lines of the log.

    `said` are further texts that count as words of a user. `foreign` are other conversations (see `conversations`). They count as
    text of a tool. A batch prepares `foreign` and `log` once for all of its conversations.
    """
    by_user = (*spoken.by_user, *evidence_of(said))
    return Voices(
        said=together((*by_user, *spoken.others, *log.said)),
        returned=together((*spoken.returned, *log.returned, *foreign)),
        by_user=together((*by_user, *(log.by_user or ()))),
    )


def log_voices(lines: Iterable[Observation]) -> Voices:
    """Return the texts of lines of the log by origin."""
    by_user, returned, others = list[str](), list[str](), list[str]()
    for line in lines:
        (by_user if is_of_user(line) else returned if is_of_tool(line) else others).append(line_text(line))
    users = evidence_of(by_user)
    return Voices(said=together((*users, *evidence_of(others))), returned=evidence_of(returned), by_user=users)


def conversations(messages: Iterable[Message]) -> tuple[Evidence, ...]:
    """Return the text of each conversation of these messages as evidence."""
    threads = groupby(messages, key=lambda message: (message.resource, message.thread))
    texts = ("\n".join(filter(None, map(source_text, found))) for _, found in threads)
    return tuple(map(evidence_in, filter(None, texts)))


def line_text(line: Observation | Draft) -> str:
    """Return the text of a line, followed by its verbatim text."""
    return f"{line.text}\n{line.verbatim}" if line.verbatim else line.text


def is_of_user(line: Observation) -> bool:
    """Return whether a line of the log counts as a user's statement, because of its trust or of its checked priority."""
    return not is_false(line) and (line.trust == "user" or line.priority in KEPT)


def is_of_tool(line: Observation) -> bool:
    """Return whether a line of the log counts as text of a tool."""
    return not is_of_user(line) and (line.trust == "tool" or is_false(line))


def is_false(line: Observation) -> bool:
    """Return whether an earlier check marked a line, because it claims to be a user's statement and no message supports it."""
    return bool(line.metadata.get("speaks_for_user") or line.metadata.get("unverified"))


def evidence_of(texts: Iterable[str]) -> tuple[Evidence, ...]:
    """Return the joined texts as one `Evidence`, or an empty tuple if there is no text."""
    # Searching one joined text is much faster than searching many.
    found = list(filter(None, texts))
    return (joined(found),) if found else ()


# ---------------------------------------------------------------- support by users' words

_CLAUSE: Final = re.compile(r"[.;!?](?=\s|\Z)|[。；！？\n]")
_ASSISTANTS: Final = re.compile(r"\W*(?:(?:the )?(?:assistant|agent|tool)\b|->|→)", re.IGNORECASE)
# Words that report that something was said. They are not part of the statement.
_SAYING_WORDS: Final = """
    agreed agrees announced asking claimed clarified confirms declined described explained explicitly insisted instructed
    likes mentioned noted notes planned plans promised reminded repeated replied reported requests suggested thinks wanted wished
    wishes wrote authorized approves approving permission allowed regarding meaning instead
"""
_SAYING: Final = frozenset(_SAYING_WORDS.split())
# Common words. A line and a text often share them by chance, so they do not show that the line comes from the text.
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
_LEAST_CLAUSE: Final = 3  # a clause with at least this many words counts as long
# A mention of one of these kinds that a tool returned must also occur in a user's words. A mention of another kind may occur in
# the assistant's words instead, because a model needs it to replace "it" in the user's words by a name.
_FOREIGN: Final[frozenset[Kind]] = frozenset({"url", "command", "flag", "quote", "name"})


def _claimed(text: str) -> list[str]:
    """Return the clauses of a line that may claim to be a user's statement.

    Clauses about the assistant or a tool are left out, unless the line has no other clause.
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
    """Return whether the claim of a line comes from `cited`, the words of users in the messages that the line cites.

    At least `share` of the words must occur in `cited` (words of users in other messages are not counted), and each long clause
    needs a word of a user. A word that only a tool returned refutes the claim, unless the word is common or occurs in `asked`,
    the messages of the assistant that the user answers. If no tool returned anything, only words of the assistant count
    against the claim. `confirms` is True if a user confirmed the assistant's work. Then words of the assistant do not count
    against the claim either.
    """
    claims = _claimed(text)
    clauses = [_clause_words(clause) for clause in claims]
    words = tuple(dict.fromkeys(word for clause in clauses for word in clause))
    if not words:
        return True
    by_user = voices.by_user or ()
    users = Voices(said=(cited, *by_user), returned=voices.returned)
    if users.copies_tool(" ".join(claims)) or users.names_from_tool(text, _FOREIGN):
        return False
    both = replace(users, said=(*users.said, *voices.said))
    if both.names_from_tool(text, _NAMING - _FOREIGN):
        return False
    here = words_of(words, (cited,))
    elsewhere = words_of((word for word in words if word not in here), by_user)
    rest = [word for word in words if word not in here and word not in elsewhere]
    if not rest:
        return True
    returned = words_of(rest, voices.returned)
    by_assistant = words_of((word for word in rest if word not in returned), voices.said)
    if confirms:
        rest = [word for word in rest if word not in by_assistant]
    if _is_translated(text, cited):
        # Most words of a translation cannot be compared. If a tool returned something, one word of a user (such as a name or
        # number) is required, and at most one word may come from the tool.
        is_theirs = bool(here or elsewhere) and len(returned) < _FEW
        return is_theirs if voices.returned else len(by_assistant) < len(words)
    if not voices.returned:
        has_support = bool(here or elsewhere or not voices.said or confirms)
        return has_support and len(here) >= share * (len(here) + len(by_assistant))
    long_clauses = [clause for clause in clauses if len(clause) >= _LEAST_CLAUSE]
    supported = here.union(elsewhere, by_assistant if confirms else ())
    # A single uncommon word of a tool is enough to reject the claim.
    from_tool = {word for word in returned - _BY_CHANCE if not is_word_of(word, asked)}
    if from_tool or not all(supported.intersection(clause) for clause in long_clauses):
        return False
    return len(here) >= share * (len(here) + len(rest)) and bool(here or elsewhere or confirms)


def _clause_words(clause: str) -> tuple[str, ...]:
    return tuple(word for word in content_words(clause)[:_MOST_WORDS] if word not in _SAYING)


def _is_translated(text: str, cited: Evidence) -> bool:
    """Return whether a line is in English or Latin script and the cited text is not. Models translate only into English."""
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
    foreign: Sequence[Evidence] = (),
    log: Voices = NO_VOICES,
    said_at: Sequence[datetime] = (),
    spoken: Spoken | None = None,
) -> Hints:
    """Return the hints, with None for a task, suggested response or title that comes from a tool or has no support.

    `messages` is empty for a reflector, because it reads only lines of the log. `said_at` are the times of these lines. `spoken`
    are the texts of the messages, if they are known already.
    """
    before = (previous.current_task, previous.suggested_response, previous.title)
    voices = voices_of(spoken or spoken_in(messages), *filter(None, before), foreign=foreign, log=log)
    said_at = [message.created_at for message in messages] or said_at
    task = _trusted(hints.current_task, voices, said_at)
    if task and not _may_be_users(task, voices):
        task = None
    return replace(
        hints,
        current_task=task,
        suggested_response=_trusted(hints.suggested_response, voices, said_at),
        title=_trusted(hints.title, voices, said_at),
    )


_ACTED_ON: Final[frozenset[Kind]] = frozenset({"url", "command", "flag", "path", "hash"})


def _trusted(hint: str | None, voices: Voices, said_at: Sequence[datetime]) -> str | None:
    if not hint:
        return hint
    # A hint may contain an identifier that only a tool returned, but not a URL, command or flag.
    if voices.echoes_tool(hint, share=1.0) or voices.names_from_tool(hint, POINTING):
        return None
    # A hint must not contain a URL, command, flag, path or hash that occurs in no message, earlier hint or line of the log.
    missing = ungrounded(hint, [*voices.said, *voices.returned], said_at=said_at)
    acted_on = (mention for mention in mentions(hint) if mention.kind in _ACTED_ON)
    return None if any(mention.text in missing for mention in acted_on) else hint


def _may_be_users(task: str, voices: Voices) -> bool:
    """Return whether a task can come from a user.

    It can if the task shares a word with a user's text or is a translation of it. If no tool returned anything, a task without
    words of the assistant can come from a user too.
    """
    words = _clause_words(task)
    by_user = voices.by_user or ()
    if not words or any(is_word_of(word, by_user) for word in words):
        return True
    if any(_is_translated(task, text) for text in by_user):
        return True
    return not voices.returned and not any(is_word_of(word, voices.said) for word in words)


Policy: TypeAlias = Literal["keep", "flag", "drop"]
Readings: TypeAlias = Mapping[tuple[str, int], str]
"""Texts of the embedded observer about users' messages, by thread and message number. The text of a "yes" has the question."""

# A line with at least this many words that only tools returned can be an echo of a tool.
_LEAST_ECHO: Final = 4
_SHARE: Final = 0.34
# Kinds of mentions that two conversations do not share by chance.
_OWNED: Final[frozenset[Kind]] = frozenset({"path", "symbol", "url", "command", "hash", "version", "name"})
_MOST_NAMED: Final = 20  # maximum number of ungrounded mentions that are stored with a line
_MOST_CHARACTERS: Final = 200  # maximum length of such a mention
# If a line cites all messages, one of them must contain at least this share of its words.
_UNCITED_SHARE: Final = 0.5
_MOST_COMPARED: Final = 3  # maximum number of messages that are tried for that
_CONFIRMED: Final = " confirmed: "
_ANSWERS: Final = (" said yes to: ", "(This is about: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The checked lines with trust and priority, and the kinds of faults in all lines."""

    observations: tuple[Observation, ...]
    faults: tuple[str, ...] = ()


_Verdict: TypeAlias = tuple[Observation, tuple[str, ...]]
"""One checked line with trust and priority, and the kinds of its faults."""


class Judge:
    """Compares the lines of an observer with the messages of one span. Each message is prepared once."""

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        log: str | Evidence = "",
        policy: Policy = "flag",
        foreign: Sequence[Evidence] = (),
        lines: Voices = NO_VOICES,
        readings: Callable[[], Readings] = dict,
        extracted: Collection[str] = (),
    ) -> None:
        """Pass `messages` and everything else that the observer was shown.

        `foreign` are other conversations. A line that repeats their words, or has a name that only they contain, is dropped
        under every policy. `lines` are lines of the log; text of a tool in them counts as text of a tool. `readings` is
        called only if the messages do not support a line. `extracted` are the ids of lines that rules wrote and not a model.
        Their mentions are not checked, because rules count and shorten but do not invent.
        """
        self._extracted = frozenset(extracted)
        self._by_seq = {(message.thread, message.seq): message for message in messages}
        self._texts: dict[tuple[str, int, Callable[[Message], str]], Evidence] = {}
        self._log, self._readings = Evidence(log) if isinstance(log, str) else log, cache(readings)
        self._policy: Policy = policy
        self.spoken = spoken_in(messages)
        self._voices = voices_of(self.spoken, foreign=foreign, log=lines)
        self._others: Voices | None = None
        if foreign:
            own = voices_of(self.spoken)
            self._others = Voices(said=(*own.said, *own.returned, self._log), returned=tuple(foreign))
        self._callers = {call: message for message in messages for call in pairs_of(message.parts)[0]}
        # These are computed once, because a message can have thousands of parts and every line may cite it.
        self._trusts: dict[tuple[str, int], Trust] = {
            place: trust_of(message) for place, message in self._by_seq.items()
        }
        self._spoken = {place for place, message in self._by_seq.items() if is_spoken_by_user(message)}
        self._answered = {place: pairs_of(message.parts)[1] for place, message in self._by_seq.items()}
        self._speakers = frozenset(m.speaker for m in messages if m.speaker and m.role == "user")
        self._owners = frozenset(message.resource for message in messages)

    def judge(self, observations: Sequence[Observation]) -> Judged:
        """Return the lines after comparing each with the messages that it cites."""
        return at_once(self.judging(observations))

    def judging(self, observations: Sequence[Observation]) -> Generator[None, None, Judged]:
        """Return what `judge` returns, and yield after each line."""
        own, others = list(observations), self._others
        if others is not None:
            # Leave out lines about another conversation.
            own = [o for o in own if not _is_echo(o, others) and not others.names_from_tool(o.text, _OWNED)]
        verdicts: list[_Verdict] = []
        for observation in renumbered(observations, own):
            verdicts.append(self._verdict(observation))
            yield
        judged = _applied(verdicts, self._policy)
        return judged if len(own) == len(observations) else replace(judged, faults=(*judged.faults, "foreign_line"))

    def _verdict(self, observation: Observation) -> _Verdict:
        cited = [self._by_seq[place] for place in cited_places(observation) if place in self._by_seq]
        is_for_user = speaks_for_user(observation.text, self._speakers, self._owners)
        said = [message for message in cited if _place(message) in self._spoken]
        claims = _claims(observation, is_for_user)
        backed = bool(said) and (not claims or self._is_backed(observation, cited, said))
        trust = lowest(self._trusts[_place(message)] for message in cited)
        is_free = self._policy == "keep" or observation.id in self._extracted
        missing = () if is_free else self._missing(observation, cited)
        is_doubtful = bool(said) and not backed
        trust = _trust_in(observation, trust, self._voices if is_doubtful else None)
        return _weighed(observation, trust, missing, is_backed=backed, is_for_user=is_for_user, is_doubtful=is_doubtful)

    def _is_backed(self, observation: Observation, cited: Sequence[Message], said: Sequence[Message]) -> bool:
        """Return whether the cited messages of users, or their readings by the embedded observer, support a line."""
        if observation.verbatim and self._voices.copies_tool(observation.verbatim):
            return False
        # A line that cites all messages has no useful citation, so a single message must support it.
        is_uncited = len(cited) > _FEW and len(cited) == len(self._by_seq)
        groups = [(message,) for message in self._nearest(observation, said)] if is_uncited else [tuple(said)]
        share = _UNCITED_SHARE if is_uncited else LEAST_SHARE
        texts = [
            self._said(group[0]) if len(group) == 1 else Evidence("\n".join(map(said_text, group))) for group in groups
        ]
        if any(is_backed(observation.text, text, self._voices, share=share) for text in texts):
            return True
        proposed = evidence_of(said_text(message) for message in cited if message.role == "assistant")
        for group in groups:
            read = "\n".join(self._readings().get(_place(message), "") for message in group)
            text = Evidence("\n".join((*map(said_text, group), read)))
            confirms = observation.priority == "done" and _CONFIRMED in read
            asked = proposed if any(sign in read for sign in _ANSWERS) else ()
            if read and is_backed(observation.text, text, self._voices, confirms=confirms, share=share, asked=asked):
                return True
        return False

    def _nearest(self, observation: Observation, said: Sequence[Message]) -> list[Message]:
        words = content_words(observation.text)
        return sorted(said, key=lambda message: -sum(is_word_of(word, (self._said(message),)) for word in words))[
            :_MOST_COMPARED
        ]

    def _said(self, message: Message) -> Evidence:
        return self._evidence(message, said_text)

    def _evidence(self, message: Message, text_of: Callable[[Message], str]) -> Evidence:
        key = (message.id, message.continuation, text_of)
        if key not in self._texts:
            self._texts[key] = evidence_in(text_of(message))
        return self._texts[key]

    def _missing(self, observation: Observation, cited: Sequence[Message]) -> tuple[str, ...]:
        text, about = line_text(observation), observation.about
        if not mentions(text):
            return ()
        # For a cited tool result, the message with the tool call is a source too.
        calls = (self._callers.get(call) for message in cited for call in self._answered[_place(message)])
        read = {(message.id, message.continuation): message for message in (*cited, *filter(None, calls))}
        moments = [message.created_at for message in cited]
        moments += [observation.said_at] if observation.said_at else []
        texts = [self._evidence(message, source_text) for message in read.values()]
        missing = ungrounded(text, texts, self._log, said_at=moments, about=about)
        said = [place for place in map(_place, cited) if place in self._spoken]
        if missing and (more := evidence_of(self._readings().get(place, "") for place in said)):
            return ungrounded(text, [*texts, *more], self._log, said_at=moments, about=about)
        return missing


def _place(message: Message) -> tuple[str, int]:
    return message.thread, message.seq


def cited_places(line: Observation) -> list[tuple[str, int]]:
    """Return the thread and the number of each message that a line cites."""
    return [(s.thread, seq) for s in line.sources for seq in range(s.span.first, s.span.last + 1)]


def judge_reflection(
    observations: Sequence[Observation], lines: Sequence[Observation], *, policy: Policy = "flag"
) -> Generator[None, None, Judged]:
    """Return the lines of a reflector after comparing each with the lines that it merges. Yield after each line.

    `lines` are all lines that the reflector read. Words of a tool in any of them count as the tool's.
    """
    by_id = {line.id: line for line in lines}
    all_text = Evidence("\n".join(map(line_text, lines)))
    voices = log_voices(lines)
    verdicts: list[_Verdict] = []
    yield
    for observation in observations:
        roots = [by_id[name] for name in observation.merges if name in by_id] or list(lines)
        is_for_user = speaks_for_user(observation.text)
        said = [root for root in roots if is_of_user(root)]
        claims = _claims(observation, is_for_user)
        words = Evidence("\n".join(map(line_text, said)))
        backed = bool(said) and (not claims or is_backed(observation.text, words, voices))
        if observation.verbatim and claims and voices.copies_tool(observation.verbatim):
            backed = False
        missing: tuple[str, ...] = ()
        if policy != "keep":
            # The reflector read all lines, so a line may contain a name from a line that it does not merge.
            moments = [root.said_at for root in roots if root.said_at]
            new = ungrounded(line_text(observation), [all_text], said_at=moments, about=observation.about)
            inherited = (str(name) for root in roots for name in root.metadata.get("ungrounded", ()))
            missing = tuple(dict.fromkeys((*new, *(name for name in inherited if name in observation.text))))
        is_new = bool(said) and not backed
        trust = _trust_in(observation, lowest(root.trust for root in roots), voices if is_new else None)
        is_doubtful = is_new or (not backed and _stays_doubtful(observation, roots))
        verdicts.append(
            _weighed(observation, trust, missing, is_backed=backed, is_for_user=is_for_user, is_doubtful=is_doubtful)
        )
        yield
    return _applied(verdicts, policy)


def _stays_doubtful(observation: Observation, roots: Sequence[Observation]) -> bool:
    """Return whether a line merges only marked lines (see `is_false`), or takes at least two words from marked lines only."""
    doubtful = list(filter(is_false, roots))
    if not doubtful:
        return False
    sure = evidence_of(line_text(root) for root in roots if root not in doubtful)
    words = [word for word in content_words(line_text(observation)) if not has_word(word, sure)]
    theirs = evidence_of(map(line_text, doubtful))
    return not sure or sum(has_word(word, theirs) for word in words) >= _FEW


def _claims(observation: Observation, is_for_user: bool) -> bool:
    return is_for_user or observation.priority in KEPT


def _trust_in(observation: Observation, trust: Trust, voices: Voices | None) -> Trust:
    """Return `trust`. Pass `voices` for a doubtful line: its trust is at most "assistant", or "tool" for an echo."""
    if voices is None:
        return trust
    is_of_tool = _is_echo(observation, voices) or voices.names_from_tool(observation.text)
    return lowest((trust, "tool" if is_of_tool else "assistant"))


def _is_echo(observation: Observation, voices: Voices) -> bool:
    return voices.echoes_tool(observation.text, share=_SHARE, least=_LEAST_ECHO)


# ---------------------------------------------------------------- marks, priorities and dropped lines


def _weighed(
    observation: Observation,
    trust: Trust,
    missing: Sequence[str],
    *,
    is_backed: bool,
    is_for_user: bool,
    is_doubtful: bool,
) -> _Verdict:
    """Return a line with this trust, with the priority that it may have and with marks for its faults."""
    speaks = is_for_user and not is_backed
    # Only a line with the support of a user's words may have the priority of a statement or of finished work.
    priority = "medium" if observation.priority in KEPT and not is_backed else observation.priority
    metadata = {name: value for name, value in observation.metadata.items() if name not in CODE_METADATA}
    if missing:
        metadata["ungrounded"] = [name[:_MOST_CHARACTERS] for name in missing[:_MOST_NAMED]]
    if speaks:
        metadata["speaks_for_user"] = True
    elif is_doubtful:
        metadata["unverified"] = True
    if priority != observation.priority:
        metadata["lowered_from"] = observation.priority
    before = observation.trust, observation.priority, observation.grounded, observation.metadata
    judged = observation
    if before != (trust, priority, not missing, metadata):
        judged = replace(observation, trust=trust, priority=priority, grounded=not missing, metadata=metadata)
    found = {"ungrounded": bool(missing), "speaks_for_user": speaks, "unverified": bool(metadata.get("unverified"))}
    return judged, tuple(name for name, is_so in found.items() if is_so)


def _applied(verdicts: Sequence[_Verdict], policy: Policy) -> Judged:
    """Return the lines and their faults. With the policy "drop", lines with faults are left out."""
    kept = [line for line, faults in verdicts if policy != "drop" or not faults]
    return Judged(
        observations=renumbered([line for line, _ in verdicts], kept),
        faults=tuple(dict.fromkeys(fault for _, faults in verdicts for fault in faults)),
    )


def renumbered(before: Sequence[Observation], kept: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return the kept lines with new numbers. A line whose parent was dropped moves under the nearest kept ancestor."""
    if len(kept) == len(before):
        return tuple(kept)
    numbers = {observation.ordinal: number for number, observation in enumerate(kept, start=1)}
    parents = {observation.ordinal: observation.parent for observation in before}

    def above(ordinal: int | None) -> int | None:
        for _ in range(len(parents) + 1):
            if ordinal is None or ordinal in numbers:
                break
            ordinal = parents.get(ordinal)
        return numbers.get(ordinal) if ordinal is not None else None

    return tuple(
        replace(observation, ordinal=number, parent=above(observation.parent))
        for number, observation in enumerate(kept, start=1)
    )


_LEAST_SAID: Final = 0.5
"""The minimum share of the words of a new line that users or the model must have said."""
_LABEL: Final = re.compile(r"\s*+(?:[-*+]|\d{1,9}[.)])?\s*+(?:[^:\n]{1,60}:)?\s*+")


def trusted_document(
    old: str, new: str, messages: Sequence[Message], *, foreign: Sequence[Evidence] = (), whole: bool = False
) -> str:
    """Return `old` with the changed lines of `new` that the messages support.

    With `whole`, one unsupported change rejects all changes. This is for texts such as JSON, which a partial change would break.
    """
    voices = voices_of(spoken_in(messages), foreign=foreign)
    # Names in the old document need no support by messages.
    known = Voices(said=(*voices.said, Evidence(old)), returned=voices.returned)
    before, after = old.splitlines(), new.splitlines()
    lines: list[str] = []
    for kind, first, end, start, stop in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        gone, added = before[first:end], after[start:stop]
        may_go = all(_may_go(line, added, voices) for line in gone)
        if kind == "equal" or (may_go and all(_is_said(line, known) for line in added if content_words(line))):
            lines += added
        elif whole:
            return old
        else:
            lines += gone
    return "".join(f"{line}\n" for line in lines)


def _is_said(line: str, voices: Voices) -> bool:
    """Return whether users or the model said the names, the numbers and at least half of the words of a line."""
    if line.lstrip().startswith("#"):
        # The words of a heading need no support, but they must not come from a tool.
        return not voices.echoes_tool(line, share=1.0)
    if voices.echoes_tool(line, share=1.0) or voices.names_from_tool(line, POINTING):
        return False
    claim = _LABEL.sub("", line, count=1) or line
    if not all(is_found(mention, voices.said) for mention in mentions(claim)):
        return False
    words = content_words(claim)
    said = sum(has_word(word, voices.said) for word in words)
    return said >= _LEAST_SAID * len(words)


def _may_go(line: str, added: Sequence[str], voices: Voices) -> bool:
    """Return whether a line may be removed: it has no words, an added line contains it, or a user or model said a word of it."""
    words = content_words(_LABEL.sub("", line, count=1)) if not line.lstrip().startswith("#") else ()
    if not words or any(line.strip() and line.strip() in other for other in added):
        return True
    return any(has_word(word, voices.said) for word in content_words(line))
