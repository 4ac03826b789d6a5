"""The loss guard: find statements, identifiers and names that a reflection has lost.

The rules compare the old lines, which a reflector read, with the result lines, which are to replace them:

1. A result line *says* an old 🔴 or ✅ line if it contains the words of the old line side by side, or at least 60 % of the
   content words. 80 % are needed in three cases: the result line does not merge the old line, the old line forbids or denies
   something, or the old line is in a script without capitals. If the old line is 🔴, the result line must also contain each
   name, number, date and time of the old line.
2. If an old line forbids, denies or limits something, a clause of the result line must do the same. In this clause, one of the
   words "not", "against", "stop", "only" and so on must be followed directly by the same words. The clause must not contain more
   such words than the old clause, and no longer word that is in none of the merged lines. The result line must not contain words
   that revoke a statement ("used to", "unless", "is void", "but", a question mark), unless the old line contains them too. If
   the old line denies nothing, the result line must not deny most of its words. If a 🔴 line contains one of two opposites
   ("below" and "above", "before" and "after"), the result line must contain the same one before the same words.
3. A result line *supersedes* an old line if it merges this line and a newer 🔴 or ✅ line, says the newer line, contains a word
   of the old line, and contains a word of change ("moved", "instead of", "no longer"). If the old line forbids something, the
   newer line must also contain a word of change and a word for the forbidden thing.
4. Identifiers (paths, symbols, commands, URLs …) and names of all lines must occur somewhere in the result. Numbers may be lost.
5. A result line is *vague* if it merges many different lines and contains hardly any of their words.
"""

import re
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil
from typing import Final, TypeAlias

from memolog.core.cache import remembered
from memolog.core.observation import KEPT, TRACES, Observation, Priority
from memolog.observer.evidence import Evidence, is_found
from memolog.observer.judge import is_of_tool, line_text
from memolog.text.identifiers import Kind, Mention, content_words, dotted_words, folded, mentions

_BY_LINE: Final = {"high": 0, "done": 1, "medium": 2, "low": 3}
_BY_KIND: Final[dict[Kind, int]] = {
    "path": 0,
    "symbol": 1,
    "command": 1,
    "flag": 2,
    "url": 2,
    "version": 2,
    "hash": 2,
    "name": 3,
}
"""Ranks of identifiers; 0 is the most valuable. Quotes, numbers and dates have no rank, because alone they mean nothing."""
_VERBATIM: Final = 10  # added to the rank of an identifier in the verbatim text of a line
_MERGED: Final = 0.6  # minimum share of words in a result line that merges the old line
_UNMERGED: Final = 0.8  # minimum share of words in any other result line
_NEGATED: Final = 0.5  # minimum share of the denied words, if a denial has at most _FEW_DENIED words
_FEW_DENIED: Final = 2
_MOST_DENIED: Final = 0.5  # a result line that denies a larger share of the words of a statement denies the statement
# A reflection compares the same texts several times. The analyses of this many texts are cached.
_REMEMBERED: Final = 1_024
# An old line is compared with at most this many result lines that do not merge it.
_MOST_COMPARED: Final = 5
# A vague result line merges at least `_VAGUE_LINES` lines, which have at least `_VAGUE_WORDS` different words, and contains less
# than the share `_VAGUE_SHARE` of these words.
_VAGUE_LINES: Final = 20
_VAGUE_WORDS: Final = 60
_VAGUE_SHARE: Final = 0.05


class _Text:
    """A text. Each analysis of the text is made when it is first needed."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def evidence(self) -> Evidence:
        return _evidence(self.text)

    @cached_property
    def words(self) -> "_Words":
        return _words(self.text)

    @cached_property
    def denials(self) -> "tuple[_Denial, ...]":
        return _denials(self.text)

    @cached_property
    def sides(self) -> "tuple[_Side, ...]":
        return _sides(self.text)

    @cached_property
    def takes_back(self) -> frozenset[str]:
        return _takes_back(self.text)

    @cached_property
    def has_change(self) -> bool:
        return _has_change(self.text)


class ResultLine(_Text):
    """A line of a reflection: its text, its priority, and the ids of the old lines that it merges."""

    def __init__(self, text: str, stands_for: Iterable[str] = (), priority: Priority = "high") -> None:
        super().__init__(text)
        self.stands_for = frozenset(stands_for)
        self.priority: Priority = priority
        self.merged: tuple[str, ...] = ()
        """The texts of the merged lines, without lines that come from tools. `unsaid` sets them."""

    @cached_property
    def given(self) -> "_Words":
        """The words of the merged lines."""
        return _Words([word for text in self.merged for word in content_words(text)])

    @cached_property
    def denied(self) -> "_Words":
        """The content words that the line forbids or denies."""
        return _Words([word for clause in self.denials for word in clause.words])

    @cached_property
    def affirmed(self) -> "_Words":
        """The content words that the line contains outside of denials."""
        return _Words(content_words(_affirmed(self.text)))


class _Statement(_Text):
    """A 🔴 or ✅ line that a result line must say or supersede."""

    def __init__(self, line: Observation) -> None:
        super().__init__(f"{line.text} (meaning {line.about.isoformat()})" if line.about else line.text)
        self.line, self.content = line, content_words(line.text)
        self.dotted_words = dotted_words(line.text)
        self._is_high = line.priority == "high"
        # The minimum share of the words in a result line that merges this line.
        self.share = _UNMERGED if self.denials or _is_caseless(self.text) else _MERGED

    @cached_property
    def own_words(self) -> "_Words":
        """The content words of the line, without the day that it is about."""
        return _words(self.line.text)

    @cached_property
    def may_take_back(self) -> frozenset[str]:
        """The words that revoke a statement, in the line and its verbatim text."""
        return _takes_back(f"{self.text}\n{self.line.verbatim or ''}")

    @cached_property
    def opposites(self) -> "tuple[_Side, ...]":
        return self.sides if self._is_high else ()

    @property
    def facts(self) -> list[Mention]:
        """The names, numbers, dates and times of a 🔴 line."""
        return [mention for mention in mentions(self.text) if mention.kind != "quote"] if self._is_high else []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of a 🔴 line in scripts without capitals."""
        return _caseless_names(self.line.text) if self._is_high else ()


def unsaid(
    lines: Sequence[Observation], result: Sequence[ResultLine]
) -> Generator[None, None, tuple[Observation, ...]]:
    """Return the 🔴 and ✅ lines that no result line says or supersedes, in their order. Yield after each line."""
    statements: dict[str, _Statement] = {}
    for line in lines:
        if line.priority in KEPT and not is_bare_list(line.text):
            statements[line.id] = _Statement(line)
            yield
    if not statements:
        return ()
    texts = {line.id: line_text(line) for line in lines if not is_of_tool(line)}
    yield
    # Result lines of lower priority do not count, because the next reflection could drop them.
    result = [new for new in result if new.priority in KEPT]
    merging: dict[str, list[ResultLine]] = {}
    for new in result:
        new.merged = tuple(texts[name] for name in new.stands_for if name in texts)
        for name in new.stands_for:
            merging.setdefault(name, []).append(new)
        yield
    places = {line.id: place for place, line in enumerate(lines)}
    # Most statements are said by a line that merges them.
    index = cache(lambda: _Index(result))
    found: list[Observation] = []
    for name, old in statements.items():
        yield
        if (
            not any(_says(new, old, is_merged=True) for new in merging.get(name, ()))
            and not any(_says(new, old, is_merged=False) for new in index().nearest(old.content))
            and not any(_supersedes(new, old, statements, places) for new in merging.get(name, ()))
        ):
            found.append(old.line)
    return tuple(found)


def lost(lines: Sequence[Observation], result: Sequence[str]) -> Generator[None, None, tuple[str, ...]]:
    """Return the identifiers and names of old lines that no result text contains, the most valuable first.

    Yield after each line.
    """
    found: dict[str, tuple[int, int, int]] = {}
    for place, line, phrase, rank in (yield from _missing(lines, result)):
        key = (_BY_LINE[line.priority] + (rank // _VERBATIM) * _VERBATIM, rank % _VERBATIM, place)
        found[phrase] = min(found.get(phrase, key), key)
    return tuple(sorted(found, key=found.__getitem__))


def lost_lines(lines: Sequence[Observation], result: Sequence[str]) -> Generator[None, None, tuple[Observation, ...]]:
    """Return the old lines with an identifier or name that no result text contains, in their order. Yield after each line."""
    missing = yield from _missing(lines, result)
    gone = dict.fromkeys(line.id for _, line, _, _ in missing)
    return tuple(line for line in lines if line.id in gone)


def vague(lines: Sequence[Observation], result: Sequence[ResultLine]) -> tuple[ResultLine, ...]:
    """Return the result lines that merge many different lines and contain hardly any of their words."""
    texts = {line.id: line.text for line in lines}
    found: list[ResultLine] = []
    for new in result:
        merged = [name for name in new.stands_for if name in texts]
        if len(merged) < _VAGUE_LINES:
            continue
        distinct = {word for name in merged for word in content_words(texts[name])}
        if len(distinct) >= _VAGUE_WORDS:
            common = sum(map(new.words.has, distinct))
            if common < _VAGUE_SHARE * len(distinct):
                found.append(new)
    return tuple(found)


def is_bare_list(text: str) -> bool:
    """Return whether a line only lists names. Earlier versions of Memolog wrote such lines."""
    return text.startswith(TRACES)


# ---------------------------------------------------------------- statements


def _says(new: ResultLine, old: _Statement, *, is_merged: bool) -> bool:
    if not _denies_the_same(new, old) or not all(_has_side(new, side) for side in old.opposites):
        return False
    if old.dotted_words.strip(".") and old.dotted_words in new.evidence.dotted_words:
        return True
    if not is_merged and not old.content:
        return False
    share = old.share if is_merged else _UNMERGED
    if sum(map(new.words.has, old.content)) < ceil(share * len(old.content)):
        return False
    return all(is_found(fact, (new.evidence,)) for fact in old.facts) and all(
        _has_caseless(name, new.evidence) for name in old.names
    )


def _denies_the_same(new: ResultLine, old: _Statement) -> bool:
    """Return whether a result line denies the same as a statement. A statement that denies nothing must not be denied."""
    if not old.denials:
        if not new.denials:
            return True
        is_denied = sum(map(new.denied.has, old.content)) > len(old.content) * _MOST_DENIED
        return not is_denied or sum(map(new.affirmed.has, old.content)) >= ceil(_MERGED * len(old.content))
    if not new.takes_back <= old.may_take_back:
        return False
    own = [other for other in new.denials if not _adds(other, new, old)]
    return all(any(_is_same_denial(other, denial) for other in own) for denial in old.denials)


def _adds(denial: "_Denial", new: ResultLine, old: _Statement) -> bool:
    """Return whether a clause has a longer word that is in none of the merged lines. Such a word may change the meaning."""
    old_words = old.own_words
    longer = (word for word in denial.clause if len(word) >= _SHORT or "." in word)
    return any(not old_words.has(word) and not new.given.has(word) and word not in _PLAIN for word in longer)


def _is_same_denial(other: "_Denial", denial: "_Denial") -> bool:
    if other.is_limit != denial.is_limit:
        return False
    if not denial.words:
        return True
    if not other.words or other.count > denial.count:
        return False
    words = denial.forms
    # "Never hesitate to delete" does not mean "never delete". So the word next to "never" must be the same.
    if not words.has(other.words[-1 if other.is_last else 0]):
        return False
    common = sum(map(other.forms.has, denial.words))
    share = _NEGATED if len(denial.words) <= _FEW_DENIED else _UNMERGED
    return common >= ceil(share * len(denial.words))


def _supersedes(
    new: ResultLine, older: _Statement, statements: Mapping[str, _Statement], places: Mapping[str, int]
) -> bool:
    own = [word for word in older.content if word not in _COMMON]
    if not any(map(new.words.has, own)) or not new.has_change:
        return False
    newer = [statements[name] for name in new.stands_for if name in statements and name != older.line.id]
    if older.denials:
        forbidden = [word for denial in older.denials for word in denial.words if word not in _COMMON]
        newer = [one for one in newer if _has_change(one.line.text) and any(map(one.own_words.has, forbidden or own))]
    return any(
        _is_newer(one.line, older.line, places) and _says(new, one, is_merged=True) for one in newer if one.content
    )


def _is_newer(one: Observation, other: Observation, places: Mapping[str, int]) -> bool:
    if one.said_at and other.said_at and one.said_at != other.said_at:
        return one.said_at > other.said_at
    return places[one.id] > places[other.id]


# ---------------------------------------------------------------- words

_SHORT: Final = 4  # two forms of a word have at least this many first letters in common
_ENDING: Final = 2  # maximum letters of the shorter form that may differ


class _Words:
    """A set of words. A lookup also finds other inflected forms of a word."""

    def __init__(self, words: Collection[str]) -> None:
        self._words = frozenset(words)

    @cached_property
    def _by_opening(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for word in self._words:
            found.setdefault(word[:_SHORT], []).append(word)
        return found

    def has(self, word: str) -> bool:
        if word in self._words:
            return True
        if len(word) < _SHORT:
            return f"{word}s" in self._words
        if len(word) == _SHORT and word.endswith("s") and word[:-1] in self._words:
            return True
        return any(_same_word(word, other) for other in self._by_opening.get(word[:_SHORT], ()))


@remembered(_REMEMBERED)
def _words(text: str) -> _Words:
    return _Words(content_words(text))


@remembered(_REMEMBERED)
def _evidence(text: str) -> Evidence:
    return Evidence(text)


def _same_word(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    common = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    return common >= max(_SHORT, shorter - _ENDING)


class _Index:
    """Finds the result lines that share the most words with a text."""

    def __init__(self, result: Sequence[ResultLine]) -> None:
        self._result = result
        self._by_opening: dict[str, set[int]] = {}
        for place, new in enumerate(result):
            for word in content_words(new.text):
                self._by_opening.setdefault(word[:_SHORT], set()).add(place)

    def nearest(self, words: Sequence[str]) -> list[ResultLine]:
        hits = Counter(place for word in words for place in self._by_opening.get(word[:_SHORT], ()))
        return [self._result[place] for place, _ in hits.most_common(_MOST_COMPARED)]


# ---------------------------------------------------------------- prohibitions and denials

_NOT_WORDS: Final = """
    not no never none nothing nobody neither nor without cannot avoid avoids avoiding forbidden forbids prohibited except
    dislike dislikes hate hates refuse refuses refused reject rejects rejected ban bans banned prohibits prohibit prohibiting
    against forbid forbade forbidding stop stops stopped stopping quit cease ceases prevent prevents decline declines declined
    oppose opposes opposed veto vetoed disallow disallows disallowed exclude excludes excluded excluding avoided abstain
    gegen verbietet verbat verbot verbieten untersagt stopp stoppe stoppen vermeide vermeiden vermeidet verweigere verweigert
    verweigern außer contra prohíbe prohibió prohibir prohibida evita evitar evite rechaza rechazar rechace contre interdire
    interdis interdits arrête arrêter arrêtez évite éviter évitez refuser refusez contro vieta evitare smetti rifiuta
    proíbe recusa tegen vermijd weiger
    nicht kein keine keinen keinem keiner keines nie niemals nichts ohne weder verboten hasst
    nunca jamás sin ni tampoco nada ningún ninguna ninguno prohibido odia
    ne pas jamais sans aucun aucune rien interdit interdite déteste
    non mai senza nessun nessuna nessuno vietato vietata odia
    não sem nem nenhum nenhuma proibido
    niet geen nooit zonder niets verboden
    inte ikke aldri aldrig ingen ingenting uten utan uden
    nie nigdy bez żaden żadne nic
    не нет никогда без ни нельзя ничего
    değil asla yok hiç
    לא אין בלי אסור אל ללא
    لا ليس لم لن بدون ممنوع
    नहीं मत बिना
"""
# Words that limit a statement to one thing.
_ONLY_WORDS: Final = """
    only solely exclusively nur ausschließlich solo sólo solamente únicamente seulement uniquement soltanto somente apenas
    alleen uitsluitend только tylko
"""
_ONLY: Final = frozenset(folded(_ONLY_WORDS).split())
_NOT: Final = frozenset(folded(_NOT_WORDS).split()) | _ONLY
# Words that a result line may add to a prohibition. They do not change its meaning, but say who states it and how strictly.
_PLAIN_WORDS: Final = """
    agreed asked clear clearly customer ever explicit explicitly firm firmly insisted insists instructed likes meaning
    mentioned policy requested rule rules says standing stated states strict strictly wanted wishes important since
"""
_PLAIN: Final = frozenset(_PLAIN_WORDS.split()) | _NOT
_NOT_UNSPACED: Final = re.compile(
    "不|没|沒|無|无|非|别|別|勿|禁|ない|なし|ません|ぬ|안 |못|않|없|금지|지 ?마|지 ?말|말 것|ไม่|ห้าม|อย่า"
)
_TOKEN: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CLAUSE: Final = re.compile(
    r"[.;:!?。；：！？…\n—–](?=\s|\Z)|[。；：！？，、]"
    r"|\s(?=(?:but|aber|sondern|pero|sino|mais|ma|mas|maar|men|ale|но|however|although)\s)"
    r"|\s(?=(?:and|or|und|oder|y|o|et|ou|e|en|of|och|og|i|и)\s(?:not?|never|nicht|keine?n?|nie|nunca|jamais|non|não|niet|geen)\s)",
    re.IGNORECASE,
)
# Words of change: a line that contains one may replace an older statement by a newer one.
_CHANGE_WORDS: Final = (
    "no longer|any ?more|instead|replac|switch|moved|moves|chang|former|previous|used to|rather than|was |were |not |now "
    "|from .{1,80} to |->|→|until|cancel|correct|updat|stopp|dropp|abandon|revis|since then|earlier"
    "|statt|anstelle|nicht mehr|früher|vorher|bisher|ersetz|gewechsel|wechsel|geändert|änder|jetzt|umgezogen|umzug|abgesagt"
    "|ya no|en lugar|en vez|antes|cambi|ahora|reemplaz|sustitu|cancel"
    "|ne .{1,40} plus|au lieu|remplac|avant|désormais|maintenant|chang|annul|plutôt"
    "|non .{1,20} più|invece|sostitu|prima|adesso|ora |em vez|agora|substitu|mudou|in plaats|niet meer|vervang|vroeger|nu "
    "|вместо|больше не|теперь|раньше|замен|измен|переех"
    "|不再|改为|改為|改成|而不是|换|換|代替|取消|搬|現在|现在|やめ|代わり|変更|もう|대신|변경|이제|เปลี่ยน|แทน|ยกเลิก"
    "|במקום|כבר לא|עבר|שינה|עכשיו|بدلا|بدل|لم يعد|الآن|تغي"
)
_CHANGE: Final = re.compile(_CHANGE_WORDS, re.IGNORECASE)


@remembered(_REMEMBERED)
def _has_change(text: str) -> bool:
    return _CHANGE.search(text) is not None


_COMMON_WORDS: Final = """
    like likes love loves live lives work works take takes use uses eat eats drink drinks buy buys make makes made plan plans
    think thinks own owns call calls day days week weeks month year years time new old one two
    mag lebt wohnt arbeitet nimmt isst trinkt tag tage jahr vive trabaja gusta toma habite travaille prend aime
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())
"""Words that unrelated statements often share. They do not show that one statement replaces the other."""


@dataclass(frozen=True)
class _Denial:
    words: tuple[str, ...]
    """The denied content words. They follow the first negation, or precede it if no content word follows."""
    count: int
    """The number of negations in the clause. Two negations can cancel each other."""
    clause: tuple[str, ...] = ()
    """All content words of the clause."""
    is_last: bool = False
    """Whether the negation follows the denied words, as in some languages."""
    is_limit: bool = False
    """Whether the first negation is a word such as "only", which excludes everything except `words`."""

    @cached_property
    def forms(self) -> _Words:
        """The denied words with their other forms."""
        return _Words(self.words)


# Words that may revoke or limit a statement.
_BACK_WORDS: Final = (
    r"no longer|any ?more\b|used to\b|not true|n[o']t the case|unless\b|except\b|allowed|permitted|is fine|are fine|is ok|okay\b"
    r"|cancel\w*|revok\w*|withdr[ae]w\w*|lifted|overrul\w*|outdated|obsolete|expired|formerly|previously|once said|changed"
    r"|void\w*|overrid\w*|old\b|outlived|chang(?:e[sd]|ing)|wrong\w*|false\b|myth\w*|anyway|anyhow|nevertheless|nonetheless|but\b"
    r"|until\b|till\b|suspend\w*|waive\w*|ended|over now|supersed\w*|deprecat\w*|invalid\w*|nullif\w*|rescind\w*|repeal\w*"
    r"|no need|appl(?:y|ies|ied)\b|feel free|go (?:right )?ahead|past\b|originally|initially|nonsense|rumou?r\w*"
    r"|if (?:asked|told)|never (?:said|says|stated|meant|claimed|forbade)|n[o']t (?:say|mean|state|forbid)|said nobody"
    r"|done with|however|although|though\b|yet\b|still ok|lapsed|retracted|reversed|relaxed"
    r"|history|historic\w*"
    r"|ungültig|hinfällig|veraltet|alte regel|trotzdem|dennoch|aber\b|falsch|geändert|gilt nicht|doch\b"
    r"|anulad|obsolet|pero\b|sin embargo|falso|vieja|caducad|cambi[oó]|caduc|mais\b|faux\b|ancienne|quand même|pourtant"
    r"|joke|joking|mistake|instead of|replaced|dropped|ignore\w*|disregard|now (?:it|they|that|you)\b"
    r"|nicht mehr|früher|jetzt schon|erlaubt|aufgehoben|außer\b|es sei denn|überholt|statt\b"
    r"|ya no\b|antes\b|salvo\b|excepto|permitid|cancelad|a menos que"
    r"|n['e][^.]{0,30} plus\b|avant\b|désormais|autoris|permis|sauf\b|à moins|annul"
    r"|non[^.]{0,20} più|prima\b|permess|tranne|a meno che|já não|exceto|a não ser|niet meer|toegestaan|behalve|tenzij"
    r"|больше не|раньше|теперь|можно|разреш|кроме|отмен|이제|허용|제외|이전에"
    r"|لم يعد|مسموح|إلا|כבר לא|מותר|אלא|अब|अनुमति|artık|izin|już|wolno|zezwol|lov at|tillåt|tillad"
)
_BACK: Final = re.compile(
    rf"(?<!\w)(?:{_BACK_WORDS})|(?:不再|以前|可以|允许|允許|除非|取消|もう|許可|てもよい|ても良い|[?？❌✗✘]|~~)"
)


@remembered(_REMEMBERED)
def _takes_back(text: str) -> frozenset[str]:
    return frozenset(hit[0] for hit in _BACK.finditer(folded(text)))


@remembered(_REMEMBERED)
def _denials(text: str) -> tuple[_Denial, ...]:
    found: list[_Denial] = []
    plain = folded(text)
    if not _may_deny(plain):
        return ()
    for clause in _CLAUSE.split(plain):
        spans = _denying(clause)
        if spans:
            before, after = content_words(clause[: spans[0][0]]), content_words(clause[spans[0][1] :])
            words = tuple(word for word in after or before if word not in _NOT)
            is_limit = clause[spans[0][0] : spans[0][1]] in _ONLY
            whole = content_words(clause)
            found.append(_Denial(words, len(spans), whole, is_last=not after, is_limit=is_limit))
    return tuple(found)


def _affirmed(text: str) -> str:
    parts: list[str] = []
    for clause in _CLAUSE.split(folded(text)):
        spans = _denying(clause)
        is_last = bool(spans) and not content_words(clause[spans[0][1] :])
        parts.append("" if is_last else clause[: spans[0][0]] if spans else clause)
    return "\n".join(parts)


def _may_deny(plain: str) -> bool:
    """Return False if no clause of a folded text can contain a negation. Most texts have none, and this is fast to find."""
    if any(sign in plain for sign in ("n't", "n’t", "n'", "n’", "kein")):
        return True
    return not _NOT.isdisjoint(_TOKEN.findall(plain)) or _NOT_UNSPACED.search(plain) is not None


def _denying(clause: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(clause):
        word = token[0].replace("’", "'")
        if word.startswith("n'"):
            # In French "n'utilise" only "n'" is the negation. The verb is denied.
            spans.append((token.start(), token.start() + 2))
        elif word in _NOT or word.endswith("n't") or word.startswith("kein"):
            spans.append(token.span())
    return spans or [hit.span() for hit in _NOT_UNSPACED.finditer(clause)]


# ---------------------------------------------------------------- opposites

# Pairs of opposites: synonyms of one side, a slash, and synonyms of the other side.
_OPPOSITES: Final = (
    (
        "below|under|less than|fewer than|lower than|at most|up to|no more than|not more than|maximum|max|unter|unterhalb"
        "|weniger als|höchstens|maximal|bis zu|menos de|como máximo|debajo|moins de|au plus|au maximum|dessous|sotto|meno di"
        "|al massimo|abaixo|onder|hoogstens / above|over|more than|greater than|higher than|at least|no less than|not less than"
        "|minimum|min|über|oberhalb|mehr als|mindestens|más de|al menos|como mínimo|encima|plus de|au moins|dessus|sopra|più di"
        "|almeno|acima|boven|minstens"
    ),
    (
        "before|prior to|ahead of|beforehand|vor|bevor|vorher|antes|avant|prima|vooraf|voordat / after|afterwards|nach|nachdem"
        "|nachher|danach|después|tras|luego|après|dopo|depois|daarna|nadat"
    ),
    (
        "increase|increases|raise|raises|more|longer|erhöhen|erhöhe|steigern|mehr|aumentar|aumenta|subir|sube|más|augmenter"
        "|augmente|plus / decrease|decreases|reduce|reduces|lower|less|fewer|shorten|shorter|senken|senke|verringern|reduzieren"
        "|reduziere|weniger|reducir|bajar|baja|menos|réduire|réduis|diminuer|baisser|moins"
    ),
    (
        "enable|enables|enabled|activate|turn on|turned on|switch on|switched on|hands on|aktivieren|aktiviere|einschalten"
        "|activar|activa|encender|activer|allumer / disable|disables|disabled|deactivate|turn off|turned off|switch off"
        "|switched off|hands off|deaktivieren|deaktiviere|ausschalten|desactivar|desactiva|apagar|désactiver|éteindre"
        "|finger weg|hände weg|manos fuera"
    ),
    "include|includes|including|incluir|incluye|inclure / exclude|excludes|excluding|excluir|excluye|exclure",
    "private|privat|privado|privada|privé|privée|confidential / public|publicly|öffentlich|público|pública|publique",
    "buy|buys|kaufen|kauft|comprar|compra|acheter|achète / sell|sells|verkaufen|verkauft|vender|vende|vendre|vend",
    "inside|within|innerhalb|dentro / outside|außerhalb|fuera|dehors",
    "earlier|sooner|früher|más temprano|plus tôt / later|später|más tarde|plus tard",
)
_FOLLOWING: Final = 2  # maximum number of content words after an opposite that are compared
_NEAR: Final = 6  # the content words are looked for among this many words after the opposite


@dataclass(frozen=True, slots=True)
class _Side:
    pair: int
    is_second: bool
    is_denied: bool
    words: tuple[str, ...]
    """The first content words after the opposite."""


def _phrases() -> dict[str, list[tuple[tuple[str, ...], int, bool]]]:
    """Return the phrases of all opposites by first word, longer phrases first.

    Each phrase has its words, the index of its pair, and whether it belongs to the second side.
    """
    found: dict[str, list[tuple[tuple[str, ...], int, bool]]] = {}
    for pair, words in enumerate(_OPPOSITES):
        for place, side in enumerate(words.split(" / ")):
            for phrase in side.split("|"):
                parts = tuple(folded(phrase).split())
                found.setdefault(parts[0], []).append((parts, pair, place == 1))
    return {first: sorted(phrases, key=lambda one: -len(one[0])) for first, phrases in found.items()}


_PHRASES: Final = _phrases()


@remembered(_REMEMBERED)
def _sides(text: str) -> tuple[_Side, ...]:
    words = dotted_words(text).strip(".").split(".")
    found: list[_Side] = []
    at = 0
    while at < len(words):
        fitting = [one for one in _PHRASES.get(words[at], ()) if tuple(words[at : at + len(one[0])]) == one[0]]
        size = len(fitting[0][0]) if fitting else 1
        for _, pair, is_second in (one for one in fitting if len(one[0]) == size):
            rest = words[at + size : at + size + _NEAR]
            following = [word for word in rest if word[0].isdigit() or content_words(word)][:_FOLLOWING]
            is_denied = at > 0 and words[at - 1] in _NOT
            found.append(_Side(pair, is_second, is_denied, tuple(following)))
        at += size
    return tuple(found)


def _has_side(new: ResultLine, side: _Side) -> bool:
    same = (
        other
        for other in new.sides
        if (other.pair, other.is_second, other.is_denied) == (side.pair, side.is_second, side.is_denied)
    )
    return any(not side.words or any(map(_Words(other.words).has, side.words)) for other in same)


# ---------------------------------------------------------------- names

_CASELESS: Final = (
    "\u0590-\u08ff\u0900-\u109f\u10d0-\u10ff\u1100-\u139f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_CASELESS_RUN: Final = re.compile(rf"[{_CASELESS}]+")
_CASELESS_LETTER: Final = re.compile(rf"[{_CASELESS}]")
_KATAKANA: Final = re.compile("[\u30a1-\u30fa\u30fc]{3,}")
_LEAST_NAME: Final = 2
_LONG_NAME: Final = 4


def _is_caseless(text: str) -> bool:
    if text.isascii():
        return False
    return 2 * len(_CASELESS_LETTER.findall(text)) > sum(char.isalpha() for char in text)


def _caseless_names(text: str) -> tuple[str, ...]:
    """Return names in scripts without capitals.

    If most of the text is in another script, all words in scripts without capitals count as names, else only words in katakana.
    """
    if text.isascii():
        return ()
    pattern = _KATAKANA if _is_caseless(text) else _CASELESS_RUN
    return tuple(dict.fromkeys(name for name in pattern.findall(text) if len(name) >= _LEAST_NAME))


def _has_caseless(name: str, text: Evidence) -> bool:
    """Return whether a name occurs in a text. The first or last letter of a long name may be missing (a particle)."""
    name = folded(name)
    forms = (name, name[1:], name[:-1]) if len(name) >= _LONG_NAME else (name,)
    return any(form in text.literal for form in forms)


# ---------------------------------------------------------------- identifiers


_Missing: TypeAlias = tuple[int, Observation, str, int]
"""An identifier or name that no result text contains: the index of its line, the line, its text and its rank."""


def _missing(lines: Sequence[Observation], result: Sequence[str]) -> Generator[None, None, list[_Missing]]:
    """Return the identifiers and names that no result text contains. Yield after each line."""
    found: list[_Missing] = []
    whole = Evidence("\n".join(result))
    has_mention: dict[Mention, bool] = {}
    for place, line in enumerate(lines):
        yield
        if is_bare_list(line.text):
            continue
        for text, extra in ((line.text, 0), (line.verbatim, _VERBATIM)):
            if not text:
                continue
            for mention in mentions(text):
                if mention.kind in _BY_KIND:
                    if mention not in has_mention:
                        has_mention[mention] = is_found(mention, (whole,))
                    if not has_mention[mention]:
                        found.append((place, line, mention.phrase, _BY_KIND[mention.kind] + extra))
            names = (name for name in _caseless_names(text) if not _has_caseless(name, whole))
            found += [(place, line, name, _BY_KIND["name"] + extra) for name in names]
    return found
