"""Summarise the output of a tool call on one line: errors first, then tests, changed files and sizes.

Understands compilers, linters, test runners and file tools. The text is attributed to the tool, never to the user.
"""

import re
from dataclasses import dataclass
from typing import Final

from memolog.extractive.markdown import pieces_of
from memolog.extractive.words import Candidate, choose, weights_of
from memolog.prompt.escape import clean, short_line
from memolog.prompt.redact import REDACTION

__all__ = ["Outcome", "error_of", "files_in", "outcome_of"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The summary of a tool's output."""

    text: str
    category: str
    files: tuple[str, ...] = ()


_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FENCE: Final = re.compile(r"\A\s*```\w*\n|\n?```\s*\Z")
_TAGS: Final = re.compile(r"</?tool_use_error>")
_FAILED: Final = re.compile(
    r"\A\s*(?:Exit code:? [1-9]|<tool_use_error>|error\b|\w{0,80}(?:Error|Exception)\b[:(]|fatal:|Traceback \()",
    re.IGNORECASE,
)
_EXIT: Final = re.compile(r"\bexit(?:ed)?(?: with)?(?: code| status)?:? ([1-9]\d{0,2})\b", re.IGNORECASE)
# How errors begin in the output of a call that is not marked as failed: strict, since code often contains the word.
_STRICT: Final = re.compile(
    r"^(?:E {2,}|[\w.]{0,80}?(?:Error|Exception)(?::| ?\()|error(?:\[\w+\])?: |fatal: |panic: |FAIL\b|FAILED\b"
    r"|ERROR[: ]|npm ERR!|"
    r"[ \t]*--- FAIL|make(?:\[\d+\])?: \*\*\*|\S{1,80}(?: line \d{1,6})?: (?:[^\n:]{1,60}: )?(?i:command not found"
    r"|no such file|permission denied)|thread '.{1,80}' panicked)[^\n]*",
    re.MULTILINE,
)
_LINT: Final = re.compile(
    r"^(?P<file>(?:[A-Za-z]:)?[\w./\\@+-]+\.\w{1,8})[:(](?P<line>\d{1,6})(?:[:,](?P<column>\d{1,5}))?\)?:? +(?P<words>\S[^\n]*)",
    re.MULTILINE,
)
_LOOSE: Final = re.compile(
    r"^[^\n]*(?:error|exception|fail|panic|fatal|undefined|not found|cannot|can't|unable|unexpected|expected|denied"
    r"|missing|invalid"
    r"|refused|unknown|no such|mismatch|rejected|timed? ?out|abort|traceback|warning|unresolved|conflict"
    r"|\.\w{1,5}:\d)[^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
_TESTS: Final = re.compile(
    r"^[^\n]*(?:\b\d+ (?:passed|failed|passing|failing|tests?\b|errors?\b|skipped)|\bRan \d+ tests?|\btest result: "
    r"|\bTests: )[^\n]*"
    r"|^(?:ok|FAIL|PASS)(?:[ \t]+\S+[^\n]*|)$",
    re.MULTILINE,
)
_PATH: Final = r"[`'\"]?((?:[A-Za-z]:)?[\w.@~+-]*(?:[/\\][\w.@~+-]+)+|[\w@+-]+\.\w{1,8})[`'\"]?"
_CHANGED: Final = re.compile(
    rf"[Ff]ile {_PATH} (?:has been |was )?(?P<verb>updated|created|written|deleted|edited|modified|overwritten|renamed)"
    rf"|\b(?P<did>[Cc]reated|[Uu]pdated|[Ww]rote|[Dd]eleted|[Mm]odified"
    rf"|[Ee]dited)(?: successfully)?(?: file)?(?: at| to)?:? {_PATH}"
)
_REFUSED: Final = re.compile(
    r"(?:tool use was rejected|doesn't want to proceed|interrupted by user|user (?:rejected|declined|denied))"
)
_DIFF: Final = re.compile(r"^diff --git a/(\S+)", re.MULTILINE)
_SCANNED: Final = 200_000
_ENDS: Final = 2_000
_MOST_LINES: Final = 12
_MOST_ERROR: Final = 1_200
_LINE: Final = 200
_ERROR_LINE: Final = 300
_NAME: Final = re.compile(
    r"[\w.@~+:-]{0,100}(?:/[\w.@~+-]{1,100})+|\b\w{1,80}\.\w{1,80}\b|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*|\b\w+_\w+"
)
_SHORT: Final = 160
_PROSE: Final = 400
_MOST_PROSE: Final = 600
_GROUPED: Final = 3


def outcome_of(raw: str, *, name: str, is_error: bool, reads: bool, edits: bool) -> Outcome:
    """Return the summary of an output; `reads` and `edits` say whether the tool reads or changes files."""
    text = _FENCE.sub("", clean(_ANSI.sub("", _bounded(raw))))
    if _REFUSED.search(text[:_ENDS]):
        return Outcome("rejected, not done", "error")
    if is_error or _FAILED.match(text):
        return Outcome(_failure(_TAGS.sub("", text)), "error")
    if not text.strip():
        return Outcome("no output", "finding")
    if edits:
        return _edited(text)
    if reads:
        return _shown(text)
    return _printed(text, name)


def _bounded(raw: str) -> str:
    """Return the two ends of a huge output, where errors and results stand."""
    return raw if len(raw) <= _SCANNED else f"{raw[: _SCANNED // 2]}\n{raw[-_SCANNED // 2 :]}"


def _line(text: str, most: int = _LINE) -> str:
    return REDACTION.redact(short_line(text, most))


# ---------------------------------------------------------------- errors


def _error(text: str) -> str:
    """Return an error on one line; of the rest of a long one, only the names."""
    text = REDACTION.redact(short_line(text, _MOST_ERROR * 4))
    if len(text) <= _ERROR_LINE:
        return text
    names = dict.fromkeys(
        hit.strip(".,-") for hit in _NAME.findall(text[_ERROR_LINE:]) if hit not in text[:_ERROR_LINE]
    )
    return _cut(
        f"{_cut(text, _ERROR_LINE)} [{', '.join(names)}]" if names else _cut(text, _ERROR_LINE), 2 * _ERROR_LINE
    )


def _failure(text: str) -> str:
    exit_code = _EXIT.search(text[:_ENDS])
    rest = text[exit_code.end() :] if exit_code and exit_code.start() == 0 else text
    lines = _error_lines(rest, _LOOSE) or _ends(rest)
    head = f"exit {exit_code[1]}" if exit_code else "error"
    return "; ".join(filter(None, [head, *lines]))


def _error_lines(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the lines with errors, grouped by file."""
    groups: dict[str, list[str]] = {}
    for hit in pattern.finditer(text):
        line = hit[0].strip()
        lint = _LINT.match(line)
        if lint:
            place = f"{lint['line']}:{lint['column']}" if lint["column"] else lint["line"]
            groups.setdefault(_line(lint["file"]), []).append(f"{place} {_error(lint['words'])}")
        else:
            groups.setdefault("", []).append(_error(line))
    return _fitted(groups)


def _fitted(groups: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    room = _MOST_ERROR
    # A few lines of every file rather than all of the first.
    each = max(_MOST_LINES // max(len(groups), 1), _GROUPED)
    for file, said in groups.items():
        lines = list(dict.fromkeys(said))
        most = each if file else _MOST_LINES
        more = f" (+{len(lines) - most} more)" if len(lines) > most else ""
        text = f"{file}: {', '.join(lines[:most])}{more}" if file else "; ".join(lines[:most]) + more
        if room <= 0:
            found.append(f"+{len(groups) - len(found)} more files")
            break
        found.append(_cut(text, max(room, _LINE)))
        room -= len(text)
    return found


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rsplit(' ', 1)[0]}…"


def _ends(text: str) -> list[str]:
    lines = [line for line in text[:_ENDS].split("\n") if line.strip()][:3]
    last = [line for line in text[-_ENDS:].split("\n") if line.strip()][-2:]
    return list(dict.fromkeys(_error(line) for line in [*lines, *last]))


# ---------------------------------------------------------------- what went well


def _edited(text: str) -> Outcome:
    found = [(hit[1] or hit[4], (hit["verb"] or hit["did"]).lower()) for hit in _CHANGED.finditer(text[:_ENDS])]
    files = tuple(dict.fromkeys(_line(file) for file, _ in found))
    if files:
        return Outcome(f"{found[0][1]} {', '.join(files)}", "change", files)
    return Outcome(_line(text) if len(text) <= _SHORT else _size(text), "change")


def _shown(text: str) -> Outcome:
    if len(text) <= _SHORT:
        return Outcome(_rows(text), "finding")
    return Outcome(_prose(text) if _is_prose(text) else _size(text), "finding")


def _rows(text: str) -> str:
    """Return a short output on one line."""
    return _line("; ".join(filter(None, (row.strip() for row in text.split("\n")))))


def _printed(text: str, name: str) -> Outcome:
    errors = _error_lines(text, _STRICT)
    tests = list(dict.fromkeys(_line(hit[0]) for hit in _TESTS.finditer(text)))
    if errors:
        return Outcome("; ".join([*errors, *[line for line in tests[-2:] if line not in errors]]), "error")
    if tests:
        return Outcome("; ".join(tests[-_GROUPED:]), "test")
    changed = _edited(text)
    if changed.files:
        return changed
    if len(text) <= _SHORT:
        return Outcome(_rows(text), "finding")
    if lint := _error_lines(text, _LINT) if "lint" in name.lower() else []:
        return Outcome("; ".join(lint), "finding")
    if diffs := _DIFF.findall(text):
        return Outcome(_cut(f"diff of {', '.join(dict.fromkeys(diffs))}", 2 * _LINE), "finding")
    if text.lstrip()[:1] in {"{", "["}:
        return Outcome(_line(re.sub(r"[\"{}\[\]]+", " ", text[:_ENDS]), 2 * _LINE), "finding")
    return Outcome(_prose(text) if _is_prose(text) else _size(text), "finding")


def _size(text: str) -> str:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return f"{text.count(chr(10)) + 1} lines: {_line(first, 80)}"


def _is_prose(text: str) -> bool:
    """Return whether a text is prose rather than code or program output."""
    stops = text.count(". ") + text.count(".\n") + text.count("。")
    code = text.count("{") + text.count(";\n") + text.count("\t") + text.count("()") + text.count("→")
    return len(text) > _PROSE and stops * 200 > len(text) and stops > code


def _prose(text: str) -> str:
    pieces = [piece for piece in pieces_of(REDACTION.redact(text)) if piece.kind in {"sentence", "head", "row"}]
    candidates = [
        Candidate(weights_of(piece.text), len(piece.text) + 6, 1.5 if piece.kind == "head" else 1.0) for piece in pieces
    ]
    chosen, _ = choose(candidates, min(len(text) / 10, _MOST_PROSE), set())
    texts = [pieces[index].text for index in sorted(chosen)]
    return short_line(" ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in texts), _MOST_PROSE)


# ---------------------------------------------------------------- what people and assistants write

_FILE_IN_PROSE: Final = re.compile(
    r"(?<![\w/.:@-])(?:~?/)?(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{1,80}\.\w{1,8}\b|(?<![\w/.:@-])[\w-]{1,80}\.(?:py|pyi|ts|tsx|js|jsx"
    r"|mjs|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|swift|css|scss|html|sql|md|json|ya?ml|toml|ini|cfg|lock|sh|ps1|txt|csv|xml"
    r"|vue|svelte"
    r"|tf|proto|ipynb|log|env|conf)\b"
)
_TYPED: Final = re.compile(
    r"^[ \t>`]*((?:[\w.]{0,80}?(?:Error|Exception|Panic)|panic|fatal|error(?:\[\w+\])?): [^\n]{1,300})", re.MULTILINE
)
_FRAME: Final = re.compile(
    r"File \"(?P<python>[^\"\n]{1,200})\", line (?P<row>\d{1,6})"
    r"|^[ \t]+at [^\n(]{0,120}\(?(?P<script>[^\s()]{1,200}?):(?P<at>\d{1,6})(?::\d{1,5})?\)?"
    r"|^[ \t]*(?P<other>[\w./\\@+-]{1,200}\.\w{1,8}):(?P<line>\d{1,6})(?::\d{1,5})?\b",
    re.MULTILINE,
)
_MOST_FILES: Final = 20


def files_in(text: str) -> tuple[str, ...]:
    """Return the files that a sentence names."""
    if "." not in text:
        return ()
    return tuple(dict.fromkeys(hit.rstrip(".") for hit in _FILE_IN_PROSE.findall(text)))[:_MOST_FILES]


def error_of(text: str) -> Outcome | None:
    """Return the error in a pasted stack trace: type and message, file and line."""
    errors = list(_TYPED.finditer(text[:_SCANNED]))
    frames = list(_FRAME.finditer(text[:_SCANNED]))
    if not errors or "\n" not in text.strip():
        return None
    said = _line(errors[-1][1].rstrip(" `"), _ERROR_LINE)
    # Python names the innermost frame last, others first.
    frame = next((one for one in reversed(frames) if one["python"]), frames[0] if frames else None)
    if frame is None:
        return Outcome(said, "error", files_in(said))
    file = _line(frame["python"] or frame["script"] or frame["other"])
    place = f"{file}:{frame['row'] or frame['at'] or frame['line']}"
    return Outcome(said if place in said else f"{said} ({place})", "error", (file,))
