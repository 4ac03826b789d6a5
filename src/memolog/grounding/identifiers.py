"""Find what can be checked in a text: identifiers, numbers, dates, times, quoted strings and names.

Linear in the length of the text: every pattern is bounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from memolog.domain.word_lists import UNSPACED
from memolog.grounding.figures import DATE, NUMBER, TIME
from memolog.grounding.folding import unescaped
from memolog.grounding.shapes import Kind, is_capitalised, kind_of

__all__ = ["Kind", "Mention", "mentions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """Something in a text that could be looked up in another."""

    kind: Kind
    text: str
    """As it was written, without quotation marks."""
    phrase: str = ""
    """A number with the word beside it, which says what it counts; else the same as the text."""


_HEADS: Final = (
    "git|gh|npm|npx|pnpm|yarn|bun|deno|node|pip3?|uv|poetry|conda|cargo|go|docker|podman|kubectl|helm|terraform|make|cmake"
    "|gradle|mvn|dotnet|apt|apt-get|brew|systemctl|python3?|pytest|ruff|alembic|rails|bundle|composer|php|flutter|bazel"
)
_SUBCOMMANDS: Final = (
    "add|apply|audit|bisect|branch|build|check|checkout|cherry-pick|ci|clean|clone|commit|compose|config|create|delete|deploy"
    "|describe|dev|diff|down|exec|fetch|fmt|format|get|init|inspect|install|lint|lock|log|login|logs|merge|migrate|ps|publish"
    "|pull|push|rebase|remove|reset|restart|restore|revert|rm|rollback|run|serve|show|stash|start|status|stop|switch|sync|tag"
    "|test|tidy|uninstall|up|update|upgrade|upgrade-all|version|vet"
)
_QUOTES: Final = (
    r"`[^`\n]{1,300}`",
    r'"[^"\n]{1,300}"',
    r"“[^“”\n]{1,300}”",
    r"„[^„“”\n]{1,300}[“”]",
    r"«[^«»\n]{1,300}»",
    r"「[^「」\n]{1,300}」",
    r"『[^『』\n]{1,300}』",
    r"(?<!\w)'[^'\n]{2,200}'(?!\w)",
    r"(?<!\w)‘[^‘’\n]{2,200}’(?!\w)",
)
_SPLITS: Final = r"\s\"'`“”„«»‘’「」『』《》()\[\]{}<>,;|=…→⇒，。；：！？、（）【】"
_SCAN: Final = re.compile(
    "|".join(
        (
            # Most of a text is plain words: they are stepped over in one go.
            r"(?P<plain>(?<!\w)(?:[a-z]++(?=[\s,;!?)]|[.:]?(?:\s|\Z))[ ,]*+)++)",
            r"(?P<skip>\[(?:redacted|data):[^\[\]\n]{1,80}\])",
            rf"(?P<url>(?<![\w])(?:[A-Za-z][A-Za-z0-9+.-]{{1,20}}://|www\.)[^{_SPLITS}]{{2,2000}}+(?:[=,;][^{_SPLITS}]{{1,500}}+){{0,30}})",
            rf"(?P<quote>{'|'.join(_QUOTES)})",
            rf"(?P<date>{DATE})",
            rf"(?P<time>{TIME})",
            rf"(?P<number>{NUMBER})",
            rf"(?P<word>[^{_SPLITS}{UNSPACED}]++)",
        )
    )
)
_COMMAND: Final = re.compile(rf"(?<![\w/.-])(?:{_HEADS})[ ](?:{_SUBCOMMANDS})(?![\w-])")
_LEADING: Final = "*:!?•–—›"
_TRAILING: Final = ".:!?*–—-~"
_LINE: Final = re.compile(r"(.+?\.\w{1,8}):(\d{1,7})(?::\d{1,7})?")
_DIGITS: Final = re.compile(r"\d{1,40}(?:[.,]\d{1,40})?")
_NEXT_WORD: Final = re.compile(
    r"\s(?!(?:and|are|but|for|from|has|into|not|the|was|were|when|with)\b)[^\W\d_]{3,20}(?!\w)"
)
_WORD_BEFORE: Final = re.compile(r"(?<!\w)[^\W\d_]{2,20}\s[#$€£]?\Z")
# Signs after which a sentence begins, where a capital does not make a name.
_STARTERS: Final = frozenset(".!?:;…•*-–—→⇒>|([{\"'`“„«‘‹›/\n")
_LOOK_BACK: Final = 8
_GERMAN: Final = "der das und ist nicht ein eine einen mit für auf dem wird wurde soll von zu im sich"
_NOUN_CAPITALS: Final = frozenset(_GERMAN.split())
_LEAST_QUOTE: Final = 3
_THOUSAND: Final = 3


def mentions(text: str) -> tuple[Mention, ...]:
    """Return what can be checked in a text, each once, in order."""
    text = unescaped(text)
    return tuple(dict.fromkeys(_found(text)))


def _found(text: str) -> Iterator[Mention]:
    takes_single_names = not _capitalises_nouns(text)
    run: list[tuple[int, int]] = []
    for hit in _SCAN.finditer(text):
        kind, start, end = hit.lastgroup, hit.start(), hit.end()
        # The mark inside a date is a group of its own.
        kind = "date" if kind == "mark" else kind
        name = _name(start, hit[0]) if kind == "word" else None
        if name and run and text[run[-1][1] : start] == " ":
            run.append(name)
            continue
        yield from _names(text, run, takes_single_names)
        run = [name] if name and not _opens_sentence(text, start) else []
        if name is None:
            yield from _mention(text, kind or "", start, end)
    yield from _names(text, run, takes_single_names)


def _mention(text: str, kind: str, start: int, end: int) -> Iterator[Mention]:
    raw = text[start:end]
    match kind:
        case "url":
            yield _made("url", raw.rstrip(".,;:!?"))
        case "quote":
            yield from _quoted(raw)
        case "number":
            kind = "version" if _is_version(raw) else "number"
            yield _made(kind, raw.strip(), _phrase(text, start, end))
        case "date" | "time":
            yield _made(kind, raw)
        case "plain":
            yield from (_made("command", command) for command in _COMMAND.findall(text, start, end))
        case "word":
            yield from _word(raw, followed_by=text[end : end + 3])
        case _:
            pass


def _made(kind: Kind, text: str, phrase: str = "") -> Mention:
    return Mention(kind=kind, text=text, phrase=phrase or text)


def _quoted(raw: str) -> Iterator[Mention]:
    inner = raw[1:-1].strip()
    kind = kind_of(inner) if " " not in inner else None
    if kind:
        yield _made(kind, inner)
    elif raw[0] == "`" and " " not in inner and inner.replace("(", "").replace(")", "").isidentifier():
        yield _made("symbol", inner)
    elif inner:
        if len(inner) >= _LEAST_QUOTE:
            yield _made("quote", inner)
        # Another text may name only a part of the quotation.
        yield from (found for found in _found(inner) if found.kind not in {"quote", "name"})


def _word(raw: str, *, followed_by: str) -> Iterator[Mention]:
    word = raw.lstrip(_LEADING).rstrip(_TRAILING)
    if place := _LINE.fullmatch(word):
        word = place[1]
        yield _made("number", place[2], f"{word}:{place[2]}")
    kind = kind_of(word)
    if kind is None and followed_by[:1] == "(" and followed_by != "(s)" and word.isidentifier() and word.islower():
        kind = "symbol"
    if kind:
        yield _made(kind, word)
    elif not any(char.isalpha() for char in word):
        yield from (_made("number", number) for number in _DIGITS.findall(word))


def _is_version(number: str) -> bool:
    groups = number.split(".")
    return number.count(".") > 1 and any(len(group) != _THOUSAND for group in groups[1:])


def _phrase(text: str, start: int, end: int) -> str:
    raw = text[start:end].strip()
    if any(char.isalpha() or char in "%‰°€$£¥" for char in raw):
        return raw
    if after := _NEXT_WORD.match(text, end):
        return f"{raw}{after[0]}"
    before = _WORD_BEFORE.search(text, max(start - 24, 0), start)
    return f"{before[0]}{raw}" if before else raw


# ---------------------------------------------------------------- names


def _name(start: int, raw: str) -> tuple[int, int] | None:
    """Return where the name in a word is, or None if it is no name."""
    word = raw.lstrip(_LEADING)
    start += len(raw) - len(word)
    word = word.rstrip(_TRAILING)
    is_plain = word.isalpha() and kind_of(word) is None
    return (start, start + len(word)) if is_plain and is_capitalised(word) else None


def _names(text: str, run: list[tuple[int, int]], takes_single: bool) -> Iterator[Mention]:
    if len(run) > 1 or (run and takes_single):
        yield _made("name", text[run[0][0] : run[-1][1]])


def _opens_sentence(text: str, start: int) -> bool:
    before = text[max(start - _LOOK_BACK, 0) : start]
    stripped = before.rstrip()
    return not stripped or stripped[-1] in _STARTERS or "\n" in before[len(stripped) :]


def _capitalises_nouns(text: str) -> bool:
    """Return whether a text is in a language that writes every noun with a capital."""
    words = set(re.findall(r"[^\W\d_]{2,6}", text[:5_000]))
    return len(words & _NOUN_CAPITALS) > 1
