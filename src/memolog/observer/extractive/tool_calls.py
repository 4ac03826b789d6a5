"""Write one line of the log about each tool call and its result. Also find file names and errors in the text of messages.

Consecutive calls of the same kind are joined into one line. Results of Memolog's own tools are not read.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final, NamedTuple, cast

from memolog.core.exact_json import JsonValue, dumps
from memolog.core.message import Message, TextPart, ToolCallPart, ToolResultPart
from memolog.core.observation import Priority
from memolog.core.pairs import part_at, results_of_calls
from memolog.observer.extractive.sentences import Candidate, Piece, choosing, pieces_of, weights_of
from memolog.observer.transcript import parsed, texts_of_parts
from memolog.text.escape import clean, short_line
from memolog.text.lookalikes import quoted_label
from memolog.text.redaction import REDACTION


@dataclass(frozen=True, slots=True)
class Line:
    """An observation without its parent and its time."""

    priority: Priority
    text: str
    cites: tuple[int, ...]
    category: str | None = None
    files: tuple[str, ...] = ()
    is_root: bool = False
    about: date | None = None


@dataclass(frozen=True, slots=True)
class _ToolLine(Line):
    """A line about one tool call, or about several calls of the same kind."""

    number: int = 0
    """The number of the message with the call. The line follows the lines of this message."""
    tool: str = ""
    verb: str = ""
    """The beginning of the line. It is empty if the line cannot be joined with others."""


class Summary(NamedTuple):
    """A short text about the arguments or the output of a tool, or about an error, with the files in it."""

    text: str
    category: str = "finding"
    files: tuple[str, ...] = ()


# Maximum numbers of characters. A line of `_MAX_JOINED` or more characters is not joined with further lines.
_MAX_NAME: Final = 60
_MAX_JOINED: Final = 500
_MAX_QUERY: Final = 160
_CHANGE: Final = re.compile(
    r"(updated|created|wrote|written|deleted|edited|modified|overwritten|renamed)\b", re.IGNORECASE
)
_SEARCH: Final = re.compile(r"search|grep|find|glob", re.IGNORECASE)
_VERBS: Final = (
    (re.compile(r"(?:run|bash|shell|sh|terminal|exec\w*|command|powershell|run_\w+)", re.IGNORECASE), "ran"),
    (
        re.compile(r"(?:edit|write|create|update|multi_?edit|apply_patch|str_replace)\w*", re.IGNORECASE),
        "changed",
    ),
    (re.compile(r"(?:read|view|open|cat|show)(?:_?file)?", re.IGNORECASE), "read"),
    (re.compile(r"(?:list|ls)(?:_?(?:files|dir\w*))?", re.IGNORECASE), "looked into"),
    (re.compile(r"(?=\w*+\Z)\w*(?:search|grep|glob|find)\w*", re.IGNORECASE), "searched for"),
    (re.compile(r"(?:web_?)?fetch\w*", re.IGNORECASE), "fetched"),
)


def making_tool_lines(messages: Sequence[Message]) -> Generator[None, None, Mapping[int, Sequence[Line]]]:
    """Return the lines about tool calls, by the number of the message with the call. Yield after each line."""
    found: list[_ToolLine] = []
    for tool_line in (yield from _tool_lines(messages)):
        if found and _can_join(found[-1], tool_line, messages):
            found[-1] = _joined(found[-1], tool_line)
        else:
            found.append(tool_line)
    by_number: dict[int, list[_ToolLine]] = {}
    for tool_line in found:
        by_number.setdefault(tool_line.number, []).append(tool_line)
    return by_number


def _can_join(last: _ToolLine, tool_line: _ToolLine, messages: Sequence[Message]) -> bool:
    """Return whether a line can be joined to the line before it: same tool, verb and category, and no user message between."""
    return (
        bool(last.verb)
        and (last.tool, last.verb, last.category) == (tool_line.tool, tool_line.verb, tool_line.category)
        and len(last.text) < _MAX_JOINED
        and not any(message.role == "user" and message.text for message in messages[last.number : tool_line.number])
    )


def _joined(last: _ToolLine, tool_line: _ToolLine) -> _ToolLine:
    added = tool_line.text.removeprefix(tool_line.verb).lstrip()
    return replace(
        last,
        # The text of a repeated call is added once, but every call is cited.
        text=last.text if added in last.text else f"{last.text}, {added}",
        cites=(*last.cites, *tool_line.cites),
        files=tuple(dict.fromkeys((*last.files, *tool_line.files))),
    )


def _tool_lines(messages: Sequence[Message]) -> Generator[None, None, list[_ToolLine]]:
    found: list[_ToolLine] = []
    results = results_of_calls(messages)
    called = {part.id for message in messages for part in message.parts if isinstance(part, ToolCallPart)}
    for number, message in enumerate(messages, 1):
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                at = results.get((number - 1, place))
                result = part_at(messages, at) if at else None
                is_own = message.own or (at is not None and messages[at[0]].own)
                answer = (at[0] + 1, result) if at and isinstance(result, ToolResultPart) else None
                found.append((yield from _call(number, part, answer, is_own=is_own)))
            elif isinstance(part, ToolResultPart) and part.call_id not in called and not message.own:
                found.append((yield from _answered(number, (number,), part.name or "tool", Summary(""), part)))
            elif isinstance(part, TextPart) and message.role == "tool" and not message.own and part.text.strip():
                outcome = yield from _outcome("tool", part.text, is_error=False)
                found.append(_tool_line("tool", Summary(""), outcome, number, (number,)))
            yield
    return found


def _call(
    number: int, call: ToolCallPart, result: tuple[int, ToolResultPart] | None, *, is_own: bool
) -> Generator[None, None, _ToolLine]:
    name = _line(call.name, _MAX_NAME) or "tool"
    if is_own:
        cites = (number,) if result is None else (number, result[0])
        return _ToolLine("low", _own(name, call.arguments), cites, number=number)
    target = _target_of(name, call.arguments)
    if result is None:
        return _tool_line(name, target, Summary("no result"), number, (number,))
    return (yield from _answered(number, tuple(dict.fromkeys((number, result[0]))), name, target, result[1]))


def _answered(
    number: int, cites: tuple[int, ...], name: str, target: Summary, part: ToolResultPart
) -> Generator[None, None, _ToolLine]:
    name = _line(name, _MAX_NAME) or "tool"
    outcome = yield from _outcome(name, _text_of(part.content), is_error=part.is_error)
    return _tool_line(name, target, outcome, number, cites)


def _tool_line(name: str, target: Summary, outcome: Summary, number: int, cites: tuple[int, ...]) -> _ToolLine:
    files = tuple(dict.fromkeys((*target.files, *outcome.files)))
    result, category = outcome.text, outcome.category
    is_plain = (
        _is_read(name) and category == "finding" and (target.files or "lines: " in result or result == target.text)
    )
    verb = ""
    if category == "change" and files:
        # The output repeats the file of the call, so the line has only the verb and the files.
        change = _CHANGE.match(result)
        verb = f"Assistant {change[1].lower() if change else 'changed'}"
        text = f"{verb} {', '.join(files)}"
    elif is_plain and target.text:
        # The line has the target of the call, such as a file, but no content, because the content can be read again.
        verb = f"Assistant {'searched' if _SEARCH.search(name) else 'read'}"
        text = f"{verb} {target.text}"
    else:
        text = f"{_called(name, target.text)}: {result}"
    return _ToolLine("medium", text, cites, category, files, number=number, tool=name, verb=verb)


def _called(name: str, target: str) -> str:
    """Return the beginning of a line: the verb for a common tool (else "called" and the name of the tool), and the target."""
    called = f"called {quoted_label(name, _MAX_NAME, is_tool=True)}"
    if not target:
        return f"Assistant {called}"
    return f"Assistant {next((verb for names, verb in _VERBS if names.fullmatch(name)), f'{called} on')} {target}"


def _own(name: str, arguments: JsonValue) -> str:
    """Return a line about a call of one of Memolog's tools. It does not mention the result, which comes from the memory."""
    value = parsed(arguments)
    query = cast("Mapping[str, object]", value).get("query") if isinstance(value, Mapping) else None
    if isinstance(query, str) and query.strip():
        return f"Assistant searched the memory for “{_line(query, _MAX_QUERY)}”"
    return f"Assistant used {quoted_label(name, _MAX_NAME, is_tool=True)}"


def _text_of(value: JsonValue) -> str:
    """Return the text of a tool result: a string unchanged, the texts of the parts, or else the value as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    texts = texts_of_parts(value)
    if texts is not None:
        return "\n".join(filter(None, map(clean, texts)))
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError):
        return ""


# ---------------------------------------------------------------- arguments of calls

# Names of arguments with a file, and of other arguments that describe the call. Of each list, the first name in a call is used.
_FILE_KEYS: Final = "file_path path filename file notebook_path target_file relative_path filepath uri"
_OTHER_KEYS: Final = "command cmd script pattern query url description prompt question text code input"
_READ: Final = re.compile(r"read|view|open|cat|fetch|get|show|list|ls|glob|grep|search|find|look", re.IGNORECASE)
_EDIT: Final = re.compile(r"edit|write|create|replace|patch|insert|update|delete|move|rename|apply", re.IGNORECASE)
# Placeholders that some clients store instead of arguments.
_NOTHING: Final = re.compile(r"(?:tool use:?)?[\s*`]*+\w*+[\s*`]*+\Z", re.IGNORECASE)
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
_ARGUMENT_PATH: Final = re.compile(r"(?:[A-Za-z]:)?[\w.@~+-]*(?:[/\\][\w.@~+-]+)+|[\w@+-]+\.[A-Za-z]\w{0,7}\Z")
_PATCHED: Final = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S.*)$", re.MULTILINE)
# Maximum numbers of characters, and of values that are listed.
_MAX_ARGUMENT: Final = 110
_MAX_VALUE: Final = 40
_MAX_PATH: Final = 400
_MAX_VALUES: Final = 6
_SCANNED_ARGUMENT: Final = 4_000


def _is_read(name: str) -> bool:
    return bool(_READ.search(name)) and not _is_edit(name)


def _is_edit(name: str) -> bool:
    return bool(_EDIT.search(name))


def _target_of(name: str, arguments: JsonValue) -> Summary:
    """Return the file, the command or the values in the arguments of a call."""
    value = parsed(arguments)
    if isinstance(value, Mapping):
        return _from_object(cast("Mapping[str, object]", value), name)
    text = REDACTION.redact(clean(value[:_SCANNED_ARGUMENT])) if isinstance(value, str) else ""
    if _NOTHING.match(text):
        return Summary("")
    return _from_text(text, name)


def _from_object(value: Mapping[str, object], name: str) -> Summary:
    files = tuple(_arguments(value, _FILE_KEYS, _MAX_PATH)[:1])
    others = _arguments(value, _OTHER_KEYS, _MAX_ARGUMENT)
    if _is_edit(name):
        patch = next(
            (item for item in value.values() if isinstance(item, str) and "File: " in item[:_SCANNED_ARGUMENT]), ""
        )
        files = files or tuple(_line(path, _MAX_PATH) for path in _PATCHED.findall(patch))[:_MAX_FILES]
        return Summary(", ".join(files) or (others[0] if others else _values(value)), files=files)
    text = " ".join([*others[:1], *files])
    return Summary(text or _values(value), files=files if _is_read(name) else ())


def _arguments(value: Mapping[str, object], keys: str, limit: int) -> list[str]:
    texts = (value.get(key) for key in keys.split())
    return [_line(text, limit) for text in texts if isinstance(text, str) and text.strip()]


def _values(value: Mapping[str, object]) -> str:
    plain = [
        (key, item) for key, item in list(value.items())[:50] if isinstance(item, str | int | float) and item != ""
    ]
    return ", ".join(f"{_line(str(key), 30)}={_line(str(item), _MAX_VALUE)}" for key, item in plain[:_MAX_VALUES])


def _from_text(text: str, name: str) -> Summary:
    first = short_line(text.strip().split("\n", 1)[0].replace("`", ""), _MAX_ARGUMENT)
    quoted = [short_line(part, _MAX_ARGUMENT) for part in _QUOTED.findall(text)]
    files = tuple(part for part in quoted if _ARGUMENT_PATH.fullmatch(part))[:1]
    patched = tuple(short_line(path, _MAX_PATH) for path in _PATCHED.findall(text)) if _is_edit(name) else ()
    if patched:
        return Summary(", ".join(patched[:_MAX_FILES]), files=patched[:_MAX_FILES])
    if quoted and quoted[0] not in first:
        return Summary(f"{first} `{quoted[0]}`", files=files)
    return Summary(first, files=files if _is_read(name) or _is_edit(name) else ())


# ---------------------------------------------------------------- results of calls

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FENCE: Final = re.compile(r"\A\s*```\w*\n|\n?```\s*\Z")
_TAGS: Final = re.compile(r"</?tool_use_error>")
_FAILED: Final = re.compile(
    r"\A\s*(?:Exit code:? [1-9]|<tool_use_error>|error\b|\w{0,80}(?:Error|Exception)\b[:(]|fatal:|Traceback \()",
    re.IGNORECASE,
)
_EXIT: Final = re.compile(r"\bexit(?:ed)?(?: with)?(?: code| status)?:? ([1-9]\d{0,2})\b", re.IGNORECASE)
# The beginning of an error in the output of a call that is not marked as failed. The pattern is strict, because the word "error"
# often occurs in code.
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
# Maximum numbers of characters or lines.
_SCANNED_OUTPUT: Final = 200_000  # characters of an output that are read
_ENDS: Final = 2_000  # some patterns read only this many characters at the beginning or end of an output
_MAX_LINES: Final = 12  # lines of errors
_MAX_ERROR: Final = 1_200  # characters of all errors of an output
_MAX_LINE: Final = 200
_MAX_ERROR_LINE: Final = 300
_NAMES: Final = re.compile(
    r"[\w.@~+:-]{0,100}(?:/[\w.@~+-]{1,100})+|\b\w{1,80}\.\w{1,80}\b|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*|\b\w+_\w+"
)
_SHORT_OUTPUT: Final = 160  # an output of at most this many characters is kept whole
_MIN_PROSE: Final = 400  # an output of at most this many characters is not treated as prose
_MAX_PROSE: Final = 600  # characters of prose that are kept
_GROUPED: Final = 3  # errors of each file that are kept if there are many files; also the maximum of test results


def _outcome(name: str, raw: str, *, is_error: bool) -> Generator[None, None, Summary]:
    if len(raw) > _SCANNED_OUTPUT:
        # Only the beginning and the end are read, because errors and results are there.
        raw = f"{raw[: _SCANNED_OUTPUT // 2]}\n{raw[-_SCANNED_OUTPUT // 2 :]}"
    text = clean(_ANSI.sub("", raw))
    if "```" in text:
        text = _FENCE.sub("", text)
    yield
    if _REFUSED.search(text[:_ENDS]):
        return Summary("rejected, not done", "error")
    if is_error or _FAILED.match(text):
        return Summary(_failure(_TAGS.sub("", text)), "error")
    if not text.strip():
        return Summary("no output")
    if _is_edit(name):
        return _edited(text)
    return (yield from _shown(text) if _is_read(name) else _printed(text, name))


def _line(text: str, limit: int = _MAX_LINE) -> str:
    return REDACTION.redact(short_line(text, limit))


# ---------------------------------------------------------------- errors


def _error(text: str) -> str:
    """Return an error on one line. A long error is cut, and the names in the rest of it are appended."""
    text = REDACTION.redact(short_line(text, _MAX_ERROR * 4))
    head, rest = text[:_MAX_ERROR_LINE], text[_MAX_ERROR_LINE:]
    names = dict.fromkeys(hit.strip(".,-") for hit in _NAMES.findall(rest) if hit not in head)
    more = f" [{', '.join(names)}]" if names else ""
    return _cut(_cut(text, _MAX_ERROR_LINE) + more, 2 * _MAX_ERROR_LINE)


def _failure(text: str) -> str:
    exit_code = _EXIT.search(text[:_ENDS])
    rest = text[exit_code.end() :] if exit_code and exit_code.start() == 0 else text
    lines = _error_lines(rest, _LOOSE) or _ends(rest)
    head = f"exit {exit_code[1]}" if exit_code else "error"
    return "; ".join(filter(None, [head, *lines]))


def _error_lines(text: str, pattern: re.Pattern[str]) -> list[str]:
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
    room = _MAX_ERROR
    # A few lines of every file are kept rather than all lines of the first file.
    each = max(_MAX_LINES // max(len(groups), 1), _GROUPED)
    for file, errors in groups.items():
        lines = list(dict.fromkeys(errors))
        limit = each if file else _MAX_LINES
        more = f" (+{len(lines) - limit} more)" if len(lines) > limit else ""
        text = f"{file}: {', '.join(lines[:limit])}{more}" if file else "; ".join(lines[:limit]) + more
        if room <= 0:
            found.append(f"+{len(groups) - len(found)} more files")
            break
        found.append(_cut(text, max(room, _MAX_LINE)))
        room -= len(text)
    return found


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rsplit(' ', 1)[0]}…"


def _ends(text: str) -> list[str]:
    lines = [line for line in text[:_ENDS].split("\n") if line.strip()][:3]
    last = [line for line in text[-_ENDS:].split("\n") if line.strip()][-2:]
    return list(dict.fromkeys(_error(line) for line in [*lines, *last]))


# ---------------------------------------------------------------- other output


def _edited(text: str) -> Summary:
    found = [(hit[1] or hit[4], (hit["verb"] or hit["did"]).lower()) for hit in _CHANGED.finditer(text[:_ENDS])]
    files = tuple(dict.fromkeys(_line(file) for file, _ in found))
    if files:
        return Summary(f"{found[0][1]} {', '.join(files)}", "change", files)
    return Summary(_line(text) if len(text) <= _SHORT_OUTPUT else _size(text), "change")


def _shown(text: str) -> Generator[None, None, Summary]:
    if len(text) <= _SHORT_OUTPUT:
        return Summary(_line("; ".join(filter(None, map(str.strip, text.split("\n"))))))
    return Summary((yield from _prose(text)) if _is_prose(text) else _size(text))


def _printed(text: str, name: str) -> Generator[None, None, Summary]:
    errors = _error_lines(text, _STRICT)
    tests = list(dict.fromkeys(_line(hit[0]) for hit in _TESTS.finditer(text)))
    yield
    if errors:
        return Summary("; ".join([*errors, *[line for line in tests[-2:] if line not in errors]]), "error")
    if tests:
        return Summary("; ".join(tests[-_GROUPED:]), "test")
    changed = _edited(text)
    if changed.files:
        return changed
    if len(text) <= _SHORT_OUTPUT:
        return (yield from _shown(text))
    if lint := _error_lines(text, _LINT) if "lint" in name.lower() else []:
        return Summary("; ".join(lint))
    if diffs := _DIFF.findall(text):
        return Summary(_cut(f"diff of {', '.join(dict.fromkeys(diffs))}", 2 * _MAX_LINE))
    if text.lstrip()[:1] in {"{", "["}:
        return Summary(_line(re.sub(r"[\"{}\[\]]+", " ", text[:_ENDS]), 2 * _MAX_LINE))
    yield
    return (yield from _shown(text))


def _size(text: str) -> str:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return f"{text.count(chr(10)) + 1} lines: {_line(first, 80)}"


def _is_prose(text: str) -> bool:
    stops = text.count(". ") + text.count(".\n") + text.count("。")
    code = text.count("{") + text.count(";\n") + text.count("\t") + text.count("()") + text.count("→")
    return len(text) > _MIN_PROSE and stops * 200 > len(text) and stops > code


def _prose(text: str) -> Generator[None, None, str]:
    redacted = REDACTION.redact(text)
    yield
    most = min(len(text) / 10, _MAX_PROSE)
    pieces: list[Piece] = []
    candidates: list[Candidate] = []
    for piece in pieces_of(redacted):
        yield
        cost = len(piece.text) + 6
        if piece.kind in {"sentence", "head", "row"} and cost <= most:
            pieces.append(piece)
            candidates.append(Candidate(weights_of(piece.text), cost, 1.5 if piece.kind == "head" else 1.0))
    chosen, _ = yield from choosing(candidates, most, set())
    texts = [pieces[index].text for index in sorted(chosen)]
    return short_line(" ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in texts), _MAX_PROSE)


# ---------------------------------------------------------------- files and errors in messages

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
_MAX_FILES: Final = 20


def files_in(text: str) -> tuple[str, ...]:
    """Return the file names in a sentence, each once."""
    if "." not in text:
        return ()
    return tuple(dict.fromkeys(hit.rstrip(".") for hit in _FILE_IN_PROSE.findall(text)))[:_MAX_FILES]


def error_of(text: str) -> Summary | None:
    """Return the type, message, file and line of the error in a pasted stack trace, or None if there is no error."""
    errors = list(_TYPED.finditer(text[:_SCANNED_OUTPUT]))
    frames = list(_FRAME.finditer(text[:_SCANNED_OUTPUT]))
    if not errors or "\n" not in text.strip():
        return None
    error = _line(errors[-1][1].rstrip(" `"), _MAX_ERROR_LINE)
    # The innermost frame is the last in a trace of Python, and the first in other traces.
    frame = next((one for one in reversed(frames) if one["python"]), frames[0] if frames else None)
    if frame is None:
        return Summary(error, "error", files_in(error))
    file = _line(frame["python"] or frame["script"] or frame["other"])
    place = f"{file}:{frame['row'] or frame['at'] or frame['line']}"
    return Summary(error if place in error else f"{error} ({place})", "error", (file,))
