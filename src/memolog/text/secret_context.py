"""Find secrets by the words around them: after the name of a password or key, after a header, in a command or in a sentence.

Every search starts at a fixed word, so that a text without these words takes little time.
"""

import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from memolog.text.secret_formats import Found, is_random

# Names of passwords in many languages: names that may be a part of a word, whole words in ASCII, and names in other letters.
_PASSWORDS_INSIDE: Final = ("pass", "pwd")
_PASSWORDS: Final = (
    "pw", "psk", "mdp", "contrase", "kennwort", "senha", "wachtwoord", "haslo", "heslo", "jelsz", "salasana", "adgangskode",
    "parola", "sifre", "sandi", "lozinka", "geslo", "passe", "parool", "clave",
)  # fmt: skip
_PASSWORDS_ELSEWHERE: Final = (
    "hasło", "lösenord", "şifre", "пароль", "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "كلمة المرور",
    "كلمة السر", "סיסמה", "סיסמא", "mật khẩu", "รหัสผ่าน", "पासवर्ड", "κωδικός", "slaptažodis",
)  # fmt: skip
_NAMES_INSIDE: Final = ("secret", "token", "key", "credential")
_PASSWORD_WORDS: Final = frozenset(name.encode() for name in _PASSWORDS)
# Each name with its first letter that is not ASCII. For speed, a text without this letter is not searched for the name.
_PASSWORD_SIGNS: Final = tuple((next(one for one in name if not one.isascii()), name) for name in _PASSWORDS_ELSEWHERE)
_NAME_WORDS: Final = frozenset({b"auth", b"creds", b"dsn"})

# Endings of names whose values are not secrets, such as `_id` in `token_id`.
_NO_SECRET_NAME: Final = re.compile(
    r"[_.-]?(?:id|ids|name|type|count|length|len|size|limit|usage|budget|ur[il]|path|file|dir|endpoint|header|field|column|index"
    r"|class|prefix|suffix|regex|pattern|format|policy|rule|ttl|age|version|label|title|description|placeholder|hint|error"
    r"|message|msg|input|url|store|manager|provider|service|factory|scope|s|expir\w{0,10}|reset\w{0,10}|valid\w{0,10}|iz\w{0,10}"
    r"|required|enabled|strategy|handler|algorithm|encoding|kind|status|state|parts|alias|ref|arn|var|env)\Z",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(
    r"\[redacted|<|&lt;|\$|\{|%[A-Za-z_(]|\*{3}|x{4}|\.{3}|…|[-_=#/.]{3}"
    r"|(?:your|my|some|the|insert|enter|add|change|replace|example|sample|dummy|fake)[ _-]"
    r"|(?:str|string|int|integer|bool|boolean|bytes|float|none|null|nil|true|false|undefined|optional|required|any|object|text"
    r"|password|passwd|passphrase|pass|pwd|secret|token|api[_-]?key|key|username|user|login|hidden|masked|redacted|omitted|empty"
    r"|unknown|default|value|input|self|bearer|basic|missing|invalid|incorrect|wrong|here|env|config|settings)(?![A-Za-z0-9_!@#$%^&*])",
    re.IGNORECASE,
)


def secrets_in_context(text: str, lower: str, words: frozenset[bytes]) -> Iterator[Found]:
    """Yield the secrets that follow names, URL schemes, headers and commands."""
    passwords = [name for name in _PASSWORDS_INSIDE if name in lower] + _in_order(words & _PASSWORD_WORDS)
    if not text.isascii():
        passwords += [name for sign, name in _PASSWORD_SIGNS if sign in lower and name in lower]
    places: list[int] = []
    for name in passwords:
        for at in _places(lower, name):
            places.append(at)
            yield from _after_password(text, at, name)
    names = [name for name in _NAMES_INSIDE if name in lower] + _in_order(words & _NAME_WORDS)
    for name in names:
        for at in _places(lower, name):
            places.append(at)
            yield from _after_name(text, at, name)
    if places:
        yield from _in_columns(text, places)
    if "://" in lower:
        yield from _by_rules(text, lower, "://")
    for word in sorted(words & _RULE_WORDS, key=_RULE_ORDER.__getitem__) if words else ():
        yield from _by_rules(text, lower, word.decode())


def _in_order(words: frozenset[bytes]) -> list[str]:
    # Most texts have none of these words.
    return [word.decode() for word in sorted(words)] if words else []


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def is_reference(value: str) -> bool:
    """Return whether a value is a placeholder for a secret or a reference to a secret, such as `<password>` or `$TOKEN`."""
    return _PLACEHOLDER.match(value) is not None


# ---------------------------------------------------------------- entries of tables

_PASSWORD_ENTRY: Final = re.compile(
    r"(?i:password|passwd|passphrase|passcode|passwort|kennwort|contrase|mot_?de_?passe|senha|пароль|密码|密碼|パスワード)"
    r"|(?:^|[_.-]|(?<=[a-z])(?=P))(?:[Pp]ass|PASS|[Pp]wd|PWD|[Pp]w|PW)(?:$|[_.-])|[a-z]Pass$"
    r"|(?i:^(?:db|user|root|admin|ssh)(?:pass|pwd|pw))$"
)
_SECRET_ENTRY: Final = re.compile(
    r"(?i:secret|token|credential|authorization|cookie|dsn|(?:api|access|account|auth|signing|encryption|private|shared|master"
    r"|service|storage|license|licence|webhook|jwt|session)[ _.-]?key)|_KEY$|(?i:^auth$|^creds$|^x-api)"
)
_NOT_THE_SECRET: Final = re.compile(
    r"(?i:user|username|login|e?mail|host|hostname|domain|server|port|realm|region|date|time|created\w{0,10}|updated\w{0,10}"
    r"|default|minlength|maxlength|min|max|hash|salt|address|contract|symbol|digest|checksum|fingerprint|etag|commit|uuid|serial|public\w{0,10}|\$\w{1,20})\Z"
)
_SCHEME: Final = re.compile(r"(?i:basic|bearer|token|apikey|digest|negotiate)[ \t]{1,4}")


def _kinds_of_name(name: str) -> Iterator[str]:
    for kind, pattern in (("password", _PASSWORD_ENTRY), ("secret", _SECRET_ENTRY)):
        hit = pattern.search(name)
        if hit and not _NO_SECRET_NAME.search(name[hit.end() :]):
            yield kind


def kind_of_name(name: str) -> str | None:
    """Return the kind of secret that a name shows, or None if it is not the name of a secret."""
    return next(_kinds_of_name(name), None)


def kind_of_entry(name: str, value: str) -> str | None:
    """Return the kind of secret of an entry with this name and this value, or None if the value is not a secret."""
    value = _without_scheme(value)
    if len(value) < _MIN_CERTAIN or is_reference(value):
        return None
    for kind in _kinds_of_name(name):
        if _is_password(value, "=", quoted=True) if kind == "password" else _is_secret(value, quoted=True):
            return kind
    return None


def stands_for_secret(kind: str, name: str, value: str) -> bool:
    """Return whether a value is a secret of this kind. The table or column around the value has the name of a secret.

    `name` is the key of the value inside the table, or empty.
    """
    value = _without_scheme(value)
    if is_reference(value) or _NOT_THE_SECRET.match(name) or _NO_SECRET_NAME.match(name):
        return False
    return _is_strong(value) or (kind == "password" and " " not in value and _is_in_table(value))


def _without_scheme(value: str) -> str:
    scheme = _SCHEME.match(value)
    return value[scheme.end() :] if scheme else value


# ---------------------------------------------------------------- values after names

_BARE: Final = r"[^\s\"'`,;(){}\[\]<>&\\|\x00-\x1f\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]"
_QUOTED: Final = (
    r"\"(?P<double>(?:[^\"\\\n]|\\.){1,300}+)\"|'(?P<single>(?:[^'\\\n]|\\.){1,300}+)'|`(?P<tick>[^`\n]{1,300}+)`"
    r"|[“„«](?P<curly>[^“”»\n]{1,300}+)[”“»]|「(?P<corner>[^「」\n]{1,300}+)」"
)
_VALUE: Final = rf"(?:{_QUOTED}|(?P<bare>{_BARE}{{2,500}}+)(?P<after>[(\[]?))"
_GROUPS: Final = ("double", "single", "tick", "curly", "corner", "bare")
# The rest of a value after a sign that may end it, such as a comma. The value continues if a letter, a digit or, for some signs,
# a character such as `!` follows the sign directly. It ends if the sign begins a tag, an entity or an escape, or if another name
# with a value follows.
_TAIL: Final = re.compile(
    rf"(?:{_BARE}"
    r"|[,&;](?=[\w!@#$%^*~+-])(?![\w.-]{1,40}[\"']?[=:])(?!(?:amp|quot|lt|gt|apos|nbsp|#\w{1,6});)"
    r"(?![A-Za-z]{1,30}(?: [A-Za-z]{1,20}){1,3} ?=)"
    r"|<(?=[A-Za-z0-9])(?![A-Za-z]\w{0,12}(?:[ \t]{0,2}/?>|[ \t]{1,4}[\w-]{1,20}=))"
    r"|[)\]}>|({\[\"'`](?=[A-Za-z0-9])"
    r"|\\(?=\w)(?![nrtbfux0-9])){1,200}+"
)
_STRIPPED: Final = ".:?…*,;"
_COPULA: Final = (
    r"(?:[ \t]{1,2}(?:is|are|was|to[ \t]be|be|to|as|now|es|est|ist|lautet|é|è|jest|je|är|er|on|это|of|este|là|adalah|yra|bude)"
    r"[ \t\n:]{1,4}|['’]s[ \t]{1,2}"
    r"|[ \t]{0,2}(?:是|为|為|は|が|는|은|이|=|:|：|-|–|—|→|->|=>)[ \t\n]{0,4})"
)
# The end of emphasis between a name and its value, in Markdown or HTML.
_EMPHASIS: Final = r"(?:\*{1,3}(?=[ \t`])|_{1,3}(?=[ \t])|</[A-Za-z]{1,8}>)?"
# The value after a name in code, JSON, a settings file, XML, a list of names and values, a table or a command.
_ASSIGNED: Final = re.compile(
    r"(?P<rest>[A-Za-z0-9_.À-ӿ-]{0,30}+)(?P<sep>"
    r"(?:[\"'`\])*]{0,3}+(?:</[A-Za-z]{1,8}>)?[ \t]{0,4}(?::=|=>|->|→|\?=|[:=：＝]{1,2})"
    + _EMPHASIS
    + r"[ \t]{0,4}(?:[A-Za-z_|]{1,20}[ \t]{0,2}=[ \t]{0,2})?"
    r"(?:[brfu@](?=[\"'`]))?(?=[^\s=])(?!\*{1,3}\s)"
    r"|[\"']?,?\s{0,40}(?:[\"']\w{1,20}[\"']\s{0,2}:\s{0,2}[\"'][\w .-]{0,40}[\"'],\s{0,40}){0,2}"
    r"[\"']?(?i:value|val)[\"']?[ \t]{0,2}[:=][ \t]{0,2}"
    r"|[\"']?[ \t]{0,2}[,(][ \t]{0,4}(?=[\"'`])"
    r"|(?<=[\w])>(?=[^\s<>=])"
    r"|[ \t*`]{0,4}\|[ \t]{0,4}|</[A-Za-z]{1,8}>\s{0,20}<[A-Za-z]{1,8}(?:\s[^<>\n]{0,40})?>(?:<(?:code|b|i|tt|strong|em)>)?)"
    r")" + _VALUE
)
_CELL: Final = re.compile(r"[ \t*`]{0,4}(?:\||</\w{1,8}>\s{0,20}<)")
# A value alone on the line below its name: under a heading, in a code fence, or as a folded value in YAML.
_BELOW: Final = re.compile(
    r"[\"'`*_\])]{0,3}(?:</[A-Za-z]{1,8}>)?(?:[ \t]{1,2}(?:is|are))?[ \t]{0,3}(?P<colon>[:：]?)(?:[*_]{1,3}|</[A-Za-z]{1,8}>)?"
    r"(?P<folded>[ \t]{0,3}[>|][+-]?\d?)?[ \t]{0,3}\r?\n\s{0,20}(?P<fence>(?:```|~~~)[\w-]{0,12}[ \t]{0,3}\r?\n)?[ \t>]{0,12}`?"
    r"(?P<bare>[^\s`]{4,200}+)`?(?=[ \t]{0,9}(?:[\r\n]|\Z))"
)
_SPACED: Final = re.compile(r"(?P<rest>[\w.-]{0,30}+)(?P<sep>[ \t]{1,4}(?=[^\s]))" + _VALUE)
# A value in a sentence: `the password for staging is …`.
_STATED: Final = re.compile(
    rf"(?P<rest>[A-Za-z_À-ӿ]{{0,10}}+)(?P<sep>(?:[ \t]{{1,2}}[^\s:=：.\"'`]{{1,20}}+){{0,7}}?{_COPULA})" + _VALUE
)
# Another secret in the same sentence: `… and …`, `… but I changed it to …`.
_AND: Final = re.compile(
    r"[.!?]{0,2}(?:,?[ \t]{1,2}(?:and|or|und|oder|et|ou|y|e)[ \t]{1,2}|,[ \t]{1,2}"
    r"|[^\n:=]{0,50}?[ \t](?:it|them|that|one)(?:['’]s|[ \t](?:to|is|was|into))[ \t]{1,2}(?:now[ \t])?)" + _VALUE
)
# Maximum number of secrets in one sentence.
_MAX_STATED: Final = 10
_SET_BEFORE: Final = re.compile(
    r"(?:\b(?:ENV|ARG|set|setx|setenv|export|set -x|set -gx|set -Ux)[ \t]{1,9}|(?<![^\s\"'`(])--?)[\w.-]{0,40}\Z"
)
# At most this many characters before a name are read.
_LOOKED_BACK: Final = 130
_SIGNS_INSIDE: Final = frozenset("&<>{)]}")
_CODE_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,500}")
_IN_BRACKETS: Final = re.compile(r"[^\s()\[\],=\"']{1,100}+(?=\s|\Z)")
_LONGEST_NAME: Final = 40
_NAME_SIGNS: Final = f"{string.ascii_letters}{string.digits}_-."
_QUOTES: Final = frozenset("\"'`”“»」")
_BRACKETS: Final = frozenset("()[]{}=\"',;|")


def _secret_in(hit: re.Match[str], kind: str, is_secret: Callable[[str, bool], bool]) -> tuple[Found, ...]:
    """Return the value of a match if it is a secret, or nothing. Signs that end a sentence are not part of the value.

    `is_secret` is called with the value and whether it is in quotation marks.
    """
    group = next(group for group in _GROUPS if hit[group] is not None)
    value, start, whole = hit[group], *hit.span(group)
    is_quoted, is_cut = group != "bare", False
    if not is_quoted:
        value = value.rstrip(".:?…*") or value
        if hit["after"] and _is_call(hit, value):
            return ()
        end = start + len(value)
        whole = _end_of_word(hit.string, whole, end)
        is_cut = whole > end and hit.string[end] in _SIGNS_INSIDE
    if is_reference(value):
        return ()
    found = is_secret(value, is_quoted) or (is_cut and is_secret(hit.string[start:whole], False))
    return (Found(start, whole, kind),) if found else ()


def _end_of_word(text: str, at: int, end: int) -> int:
    """Return the end of a value. `_TAIL` finds the rest of the value from `at` on. If there is no rest, return `end`."""
    hit = _TAIL.match(text, at)
    return max(end, at + len(hit[0].rstrip(_STRIPPED))) if hit else end


def _is_call(hit: re.Match[str], value: str) -> bool:
    """Return whether a value before a bracket is the name of a function or list, and not a password that contains a bracket."""
    if not _CODE_NAME.fullmatch(value):
        return False
    tail = _IN_BRACKETS.match(hit.string, hit.end("after"))
    is_word = tail is not None and any(map(str.isdigit, tail[0])) and (_is_varied(value) or _is_varied(tail[0]))
    return not is_word


def _name_before(text: str, at: int) -> str:
    piece = text[max(0, at - _LONGEST_NAME) : at]
    return piece[len(piece.rstrip(_NAME_SIGNS)) :]


def _and_more(text: str, stated: tuple[Found, ...], is_secret: Callable[[str], bool]) -> Iterator[Found]:
    """Yield the first secret of a sentence and the secrets after it: "… and …"."""
    for _ in range(_MAX_STATED):
        if not stated:
            return
        (found,) = stated
        yield found
        hit = _AND.match(text, found.end + (text[found.end : found.end + 1] in _QUOTES))
        stated = _secret_in(hit, found.kind, lambda value, _: is_secret(value)) if hit else ()


def _below(text: str, end: int, kind: str, is_secret: Callable[[str], bool]) -> Iterator[Found]:
    """Yield the value below a name if it is alone on its line and does not look like code or prose."""
    hit = _BELOW.match(text, end)
    if not hit or is_reference(hit["bare"]) or not is_secret(hit["bare"]):
        return
    value = hit["bare"]
    is_alone = bool(hit["fence"] or hit["folded"]) or (
        _BRACKETS.isdisjoint(value)
        and sum(map(str.isdigit, value)) > 1
        and (_is_varied(value) if hit["colon"] else _is_strong(value))
    )
    if is_alone and not value.endswith((":", ",", ";")):
        yield Found(*hit.span("bare"), kind)


def _is_in_cell(hit: re.Match[str]) -> bool:
    """Return whether a value is in the table cell beside its name. Such a value is a secret less often than an assigned one."""
    return _CELL.match(hit["sep"]) is not None


def _ends_cell(text: str, hit: re.Match[str]) -> bool:
    return text[hit.end() : hit.end() + 12].lstrip(" \t`*").startswith(("|", "</"))


def _ends_line(text: str, at: int) -> bool:
    return not text[at : at + 40].split("\n", 1)[0].strip(" \t\r,;\"'`</>") or text[at : at + 2] == "</"


# ---------------------------------------------------------------- passwords

_PASS_AS_NAME: Final = re.compile(
    r"(?i:pass[ -]?(?:word|phrase|code)|passwd|passwrd|passphrase|passcode|passwort|passord|pass|pwd|pw|psk)"
)
_SHORT_NAMES: Final = frozenset({"pass", "pwd", "pw", "psk"})
_PASS_OWNER: Final = re.compile(
    r"(?i:(?:^|.{0,40}[^A-Za-z])(?:db|user|usr|my|root|admin|ssh|sudo|smtp|imap|mail|ftp|sql|mysql|pg|http|proxy|store|key|login|wifi"
    r"|redis|mongo)?)\Z"
)
# Letters after "pass" in words that do not mean a password: passed, passes, passing, passage, passive, passion, passport.
_NOT_PASSWORDS: Final = ("ed", "es", "ing", "age", "ive", "ion", "eng", "por", "ly")
_ENV_REST: Final = re.compile(r"[A-Z0-9_]{0,60}\Z")
_ENV_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{0,60}\Z")
_LOGIN_BEFORE: Final = re.compile(r"(?i:machine|login|user|username|identified|with|user\s+\S{1,40})[^\n]{0,80}\s\Z")
_BETWEEN: Final = re.compile(r"(?:(?:the|my|our|your|a|an|his|her|their) )?(?:[\w-]{1,20} ){0,3}\Z")
_LONGEST_BETWEEN: Final = 70
# Words after "password" that show that no password follows: `the password manager is 1Password`.
_NO_PASSWORD_AFTER: Final = (
    "manager", "policy", "provider", "service", "generator", "library", "algorithm", "hashing", "storage",
)  # fmt: skip


def _after_password(text: str, at: int, anchor: str) -> Iterator[Found]:
    """Yield the passwords after or before the word `anchor` at `at`: `password: hunter2`, `hunter2 is the password`."""
    if anchor == "pass" and text.startswith(_NOT_PASSWORDS, at + 4):
        return
    name = _name_before(text, at)
    end = _end_of_name(text, at, anchor, name)
    if end is None:
        return
    hit = _ASSIGNED.match(text, end)
    if hit:
        # `PASS: name` is skipped, because it is the output of a test.
        if not _NO_SECRET_NAME.search(hit["rest"]) and not (text[at:end] == "PASS" and not name and ":" in hit["sep"]):
            yield from _assigned_password(text, hit, name + text[at:end])
        return
    # "Pass" alone is probably a verb.
    is_verb = text[at:end].lower() == "pass" and not name
    found = _spaced_password(text, at, end, is_verb=is_verb)
    if found or is_verb:
        yield from found
        return
    yield from _below(text, end, "password", _is_mixed)
    hit = _STATED.match(text, end)
    if hit and not hit["sep"].lower().split(maxsplit=1)[0].startswith(_NO_PASSWORD_AFTER):
        yield from _and_more(
            text,
            _secret_in(hit, "password", lambda value, quoted: _is_password(value, "is", quoted=quoted)),
            _is_in_table,
        )
    yield from _password_before(text, at)


def _end_of_name(text: str, at: int, anchor: str, name: str) -> int | None:
    """Return the end of the name of a password that begins at `at`, or None if it is another word, such as "compass"."""
    if anchor not in _SHORT_NAMES:
        return at + len(anchor)
    hit = _PASS_AS_NAME.match(text, at)
    end = hit.end() if hit else at + len(anchor)
    short = text[at:end].lower()
    if short not in _SHORT_NAMES:
        return end
    begins_anew = text[at].isupper() and name[-1:].islower()
    goes_on = text[end : end + 1].islower() and text[end - 1].islower()
    return None if goes_on or short != anchor or not (begins_anew or _PASS_OWNER.match(name)) else end


def _password_before(text: str, at: int) -> Iterator[Found]:
    """Yield the password before its name: `use hunter2 as the password`."""
    places = [
        (text.rfind(word, max(0, at - _LONGEST_BETWEEN), at), len(word)) for word in (" as ", " is ", " for ", " was ")
    ]
    place, length = max(places)
    if place < 0 or not _BETWEEN.match(text, place + length, at):
        return
    piece = text[max(0, place - _LOOKED_BACK) : place]
    quote = piece[-1:]
    is_quoted = quote in {'"', "'", "`"}
    value = piece[piece.rfind(quote, 0, -1) + 1 : -1] if is_quoted else (piece.split() or [""])[-1]
    end = place - 1 if is_quoted else place
    if len(value) >= _MIN_UNSURE and " " not in value and not is_reference(value) and _is_mixed(value):
        yield Found(end - len(value), end, "password")


def _assigned_password(text: str, hit: re.Match[str], name: str) -> tuple[Found, ...]:
    sep = hit["sep"]
    if _is_in_cell(hit):
        return _secret_in(hit, "password", lambda value, _: _ends_cell(text, hit) and _is_in_table(value))
    is_tight = sep == "=" and _ENV_NAME.match(name) is not None and _ENV_REST.match(hit["rest"]) is not None
    is_line = sep.strip() in {":", "=", ">"} and _ends_line(text, hit.end())
    return _secret_in(
        hit, "password", lambda value, quoted: _is_password(value, sep, quoted=quoted, loose=is_tight, line=is_line)
    )


def _spaced_password(text: str, at: int, end: int, *, is_verb: bool) -> tuple[Found, ...]:
    """Return the password after a name and a space, or nothing. Commands, login files and short sentences have this form."""
    hit = _SPACED.match(text, end)
    if not hit or _NO_SECRET_NAME.search(hit["rest"]):
        return ()
    before = text[max(0, at - _LOOKED_BACK) : at]
    is_option = _SET_BEFORE.search(before) is not None
    is_login = is_option or _LOGIN_BEFORE.search(before) is not None

    def is_secret(value: str, quoted: bool) -> bool:
        if is_verb and (quoted or not is_login):
            return False
        if is_login or quoted:
            return _is_password(value, " ", quoted=quoted, loose=is_option and not value.startswith("-"))
        return len(value) >= _MIN_UNSURE and _is_no_path(value)

    return _secret_in(hit, "password", is_secret)


# ---------------------------------------------------------------- keys, tokens and other secrets

_KEY_OWNERS: Final = (
    "api", "access", "account", "auth", "signing", "encryption", "private", "shared", "master", "secret", "license", "licence",
    "service", "storage", "admin", "app", "application", "client", "consumer", "deploy", "session", "jwt", "hmac", "aes",
    "fernet", "webhook", "write", "ingest", "ingestion", "instrumentation",
    "subscription", "function", "functions", "host", "project",
    "integration", "rest", "role", "anon", "bot", "merchant", "publishable", "server", "cookie", "django", "flask", "rails",
    "openai", "anthropic", "stripe", "datadog", "dd", "algolia", "mailgun", "sendgrid", "pinecone", "twilio", "azure", "aws",
    "gcp", "google", "maps", "weather", "wifi", "wi-fi", "wlan", "wpa", "wep",
)  # fmt: skip
# Minimum length, in characters, of a secret value after the word "key" alone.
_MIN_LONG: Final = 20
_PUBLIC_KEYS: Final = (
    "public", "foreign", "primary", "sort", "cache", "partition", "unique", "group", "order", "dict", "json",
)  # fmt: skip
# The text between a name and its value. This check is quick and rejects most names, because no value follows them.
_GOES_ON: Final = re.compile(
    r"[\w.-]{0,30}+[\"'`\])*]{0,3}"
    r"(?:[ \t]{0,4}[:=：＝>,?|<\n-]|[ \t]{1,4}[^\s(){}\[\]]|[ \t]\([A-Za-z]|\s{1,40}[\"']?value|[はがは是为為는은이→])"
)


def _after_name(text: str, at: int, anchor: str) -> Iterator[Found]:
    """Yield the secrets after the word `anchor` at `at`, which may name a key, a token or another secret."""
    end = at + len(anchor)
    if not _GOES_ON.match(text, end):
        return
    name = _name_before(text, at)
    is_inside = name[-1:].isalpha() and name[-1:].islower() == text[at].islower()
    if (anchor.encode() in _NAME_WORDS and is_inside) or (anchor == "token" and name.lower().endswith("publickey")):
        return
    hit = _ASSIGNED.match(text, end)
    if anchor == "key" and not _is_owned(text, at, name):
        # "Key" has many meanings. If the words before it do not show a secret, only a long random value counts as one.
        hit = hit or _SPACED.match(text, end) or _STATED.match(text, end)
        if hit and not name and not hit["rest"]:
            yield from _secret_in(
                hit, "secret", lambda value, _: len(value) >= _MIN_LONG and _is_strong(value) and _is_varied(value)
            )
        return
    if hit:
        if not _NO_SECRET_NAME.search(hit["rest"]):
            yield from _assigned_secret(hit, name + text[at:end])
        return
    hit = _SPACED.match(text, end)
    if hit and not hit["rest"].isalpha():
        is_option = _SET_BEFORE.search(text[max(0, at - _LOOKED_BACK) : at]) is not None
        found = _secret_in(
            hit, "secret", lambda value, quoted: _is_secret(value, quoted=quoted) if is_option else _is_strong(value)
        )
        if found:
            yield from found
            return
    yield from _below(text, end, "secret", _is_strong)
    hit = _STATED.match(text, end)
    if hit and (hit["rest"] == "s" or not _NO_SECRET_NAME.search(hit["rest"])):
        yield from _and_more(
            text,
            _secret_in(
                hit,
                "secret",
                lambda value, quoted: _is_strong(value) or (quoted and len(value) > _MIN_UNSURE and is_random(value)),
            ),
            _is_strong,
        )


def _is_owned(text: str, at: int, name: str) -> bool:
    """Return whether the words before `key` show that the key is secret."""
    owner = text[max(0, at - 20) : at].rstrip(" _.-").lower()
    is_env = name.endswith("_") and name.isupper()
    return (is_env or owner.endswith(_KEY_OWNERS)) and not owner.endswith(_PUBLIC_KEYS)


def _assigned_secret(hit: re.Match[str], name: str) -> tuple[Found, ...]:
    is_env = hit["sep"] == "=" and _ENV_NAME.match(name + hit["rest"]) is not None
    is_listed = hit["sep"].strip(" \t\"'") in {",", "("} or _is_in_cell(hit)
    return _secret_in(
        hit,
        "secret",
        lambda value, quoted: _is_strong(value) if is_listed else _is_secret(value, quoted=quoted, env=is_env),
    )


# ---------------------------------------------------------------- columns

_ENDS_COLUMN: Final = re.compile(r"[\w.-]{0,20}+[\"'*`]{0,3}[ \t]{0,20}(?:[|,;\t]|\r?\n)")
_COLUMN: Final = re.compile(r"[A-Za-z][\w.-]{0,30}(?: [\w.-]{1,30}){0,2}\Z")
_LONGEST_HEADER: Final = 400
_LONGEST_ROW: Final = 2_000


def _in_columns(text: str, places: list[int]) -> Iterator[Found]:
    """Yield the secrets in the columns of a Markdown table or a CSV file whose head is the name of a secret."""
    # The end of the last line that was read. No line is read twice.
    done = -1
    for at in sorted(at for at in places if _ENDS_COLUMN.match(text, at)):
        if at < done:
            continue
        start = text.rfind("\n", max(0, at - _LONGEST_HEADER), at) + 1
        end = text.find("\n", at, at + _LONGEST_HEADER)
        if end < 0 or (not start and at > _LONGEST_HEADER):
            continue
        done = end
        sign = next((sign for sign in "|\t,;" if sign in text[start:end]), "")
        heads = [head for head, _ in _cells(text, start, end, sign)] if sign else []
        if len(heads) < 2 or not all(map(_COLUMN.match, heads)):  # noqa: PLR2004 - a table has at least two columns
            continue
        kinds = [kind_of_name(head) for head in heads]
        while any(kinds) and (begin := end + 1) < len(text):
            end = text.find("\n", begin, begin + _LONGEST_ROW)
            end = min(len(text), begin + _LONGEST_ROW) if end < 0 else end
            cells = _cells(text, begin, end, sign)
            if len(cells) != len(heads):
                break
            for kind, (value, place) in zip(kinds, cells, strict=True):
                if (
                    kind
                    and not is_reference(value)
                    and (_is_in_table(value) if kind == "password" else _is_strong(value))
                ):
                    yield Found(place, place + len(value), kind)
            done = end


def _cells(text: str, start: int, end: int, sign: str) -> list[tuple[str, int]]:
    """Return the text of each cell of a row, without spaces, quotation marks and emphasis around it, and its position."""
    row = text[start:end].rstrip()
    if sign == "|":
        row = row.removesuffix("|")
        start += len(row) - len(row.lstrip(" \t|"))
        row = row.lstrip(" \t|")
    cells: list[tuple[str, int]] = []
    for cell in row.split(sign):
        bare = cell.strip(" \t\r*`\"'")
        cells.append((bare, start + cell.find(bare)))
        start += len(cell) + 1
    return cells


# ---------------------------------------------------------------- whether a value is a secret

# Minimum lengths in characters. `_MIN_CERTAIN` is for a place where only a password can be. `_MIN_UNSURE` is for a value that may
# also be a plain word.
_MIN_CERTAIN: Final = 4
_MIN_UNSURE: Final = 6
# Minimum length of a value that is a secret in any context.
_MIN_STRONG: Final = 12
_MAX_PIN: Final = 8
_MIXED: Final = re.compile(r"(?=[^0-9]{0,300}[0-9])(?=[^A-Za-z]{0,300}[A-Za-z]).{5}", re.DOTALL)
_CODE: Final = re.compile(
    r"(?:os|sys|self|cls|this|settings|config|conf|cfg|env|process|props|args|opts|options|request|req|res|response|data|params|ctx"
    r"|context|state|secrets|var|vars|local|module|app|user|client|session|st|process\.env|import\.meta)\.[A-Za-z_]"
    r"|[A-Za-z_]{1,60}+\d{0,2}(?:\.[A-Za-z_]{1,60}+\d{0,2}){1,9}\Z|[a-z_]{2,60}+\.[a-z_]{2,60}+\.[A-Za-z_]|/[\w.-]{1,60}/|\./|~/|https?:"
    r"|\d{1,30}(?:\.\d{1,30}){0,9}\Z|v?\d{1,9}\.\d{1,9}\.\d"
    r"|\d{4}-\d\d-\d\d|#[0-9a-fA-F]{3,8}\Z|(?:sha|aes|rsa|utf|base|gpt|oauth|http|ipv|python|node|argon|pbkdf)-?\d"
    # A password may begin with a short name and a digit too, so what follows them must be the end of a name: `p-256`, `md5sum`.
    r"|(?:md|hs|rs|es|cl|py|ed|p)-?\d{1,5}[a-z]{0,3}(?![^\W_])"
)
_CODE_ROOT: Final = re.compile(r"(?:os|sys|self|cls|this|settings|config|env|process|secrets|vars?)\.|/|\./|~/|https?:")
_PROSE: Final = re.compile(
    r"\s(?:is|must|the|your|not|a|an|and|or|to|for|of|in|at|be|was|with|should|cannot|can|has|are)\s", re.IGNORECASE
)
_TYPE: Final = re.compile(r"[A-Za-z_]{2,40}\([^()]{0,40}\)")
_SIMPLE_NAME: Final = re.compile(r"[A-Za-z_]{1,60}+\d{0,2}(?:[-_./][A-Za-z_]{1,60}+\d{0,2}){0,9}\Z")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_PORTS: Final = re.compile(r"\d{1,5}(?::\d{1,5})?\Z|[\d.]{1,20}:")


def _is_password(value: str, sep: str, *, quoted: bool, loose: bool = False, line: bool = False) -> bool:
    if quoted and sep.strip(" \t\"'") in {",", "(", "", "is"}:
        return " " not in value and (_is_mixed(value) or _has_signs(value))
    if quoted:
        return len(value) >= _MIN_CERTAIN and not _PROSE.search(value) and not (value[0].isupper() and " " in value)
    if loose:
        return len(value) >= _MIN_CERTAIN and not _CODE.match(value)
    # A plain word is a password if nothing follows it on the line, because a settings file may say `password: swordfish`.
    is_word = line and len(value) >= _MIN_UNSURE and value.isalpha() and value.islower() and sep.startswith((":", ">"))
    return is_word or _is_mixed(value)


def _is_secret(value: str, *, quoted: bool, env: bool = False) -> bool:
    if " " in value or "//" in value:
        return False
    if env:
        return len(value) > _MIN_UNSURE and _MIXED.match(value) is not None and not _CODE_ROOT.match(value)
    if _CODE.match(value):
        return False
    return (
        len(value) >= (_MIN_UNSURE if quoted else _MIN_UNSURE + 1)
        and _MIXED.match(value) is not None
        and (quoted or not _SIMPLE_NAME.match(value))
    )


def _is_mixed(value: str) -> bool:
    return _MIXED.match(value) is not None and not _CODE.match(value)


def _has_signs(value: str) -> bool:
    plain = value.replace("_", "").replace("-", "")
    return len(value) >= _MIN_UNSURE and not plain.isalnum() and any(map(str.isalnum, value)) and not _CODE.match(value)


def _is_in_table(value: str) -> bool:
    is_other = _CODE.match(value.lower()) or _SIMPLE_NAME.match(value) or _TYPE.match(value)
    return _is_mixed(value) and not is_other


def _is_strong(value: str) -> bool:
    """Return whether a value is random enough to be a secret in any context."""
    is_path = "/" in value and len(value) < 2 * _MIN_STRONG
    is_other = is_path or " " in value or _CODE.match(value) or _UUID.match(value)
    return len(value) >= _MIN_STRONG and not is_other and is_random(value)


def _is_varied(value: str) -> bool:
    """Return whether a value has small letters, capitals and digits. Many passwords have all three. Few words do."""
    has_all = any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))
    return has_all and "/" not in value and not _CODE.match(value)


def _is_no_path(value: str) -> bool:
    return "/" not in value and _is_mixed(value)


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value)) and not _CODE.match(value)


# ---------------------------------------------------------------- headers, addresses and commands

_B: Final = r"[^\s\"'`<>]"
_THEN: Final = r"\b[^\n|;]{0,200}?[ \t]"
_VALUE_IS: Final = rf"[\"']?(?P<bare>(?!-){_B}{{3,200}}+)"


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern that starts at one of several words and contains a secret."""

    words: str
    """The words, separated by spaces. An underscore inside a word is a space in the text."""
    shape: str
    """A regular expression for the text after the word. Its group `bare` is the secret."""
    is_secret: Callable[[str], bool] = bool
    kind: str = "password"
    before: str = ""
    """A regular expression for the text before the word."""


def _option(commands: str, option: str, is_secret: Callable[[str], bool] = bool) -> _Rule:
    return _Rule(commands, f"{_THEN}{option}{_VALUE_IS}", is_secret)


_RULES: Final = (
    _Rule("://", r"[^\s:/@\"'<>]{0,200}+:(?P<bare>[^\s/\"'<>]{1,200})@(?=[\w\[.-])"),
    _Rule(
        "://",
        r"[^\s:/@\"'<>]{0,60}+:(?!\d{1,5}[/\"'<>?#])"
        r"(?P<bare>[^\s/\"'<>@]{4,100}+(?:[^\s/\"'<>]|[/\"'<>](?=\w)){1,100})@(?=[\w\[.-])",
        _is_mixed,
    ),
    _Rule("://", r"(?P<bare>[^\s:/@\"'<>]{16,200}+)@", _is_strong, "token"),
    # ---- headers
    _Rule("bearer", r"[ \t:]{1,4}(?P<bare>(?=[^\s\d]{0,200}\d)[A-Za-z0-9._~+/-]{12,8000}+=*)", kind="bearer token"),
    _Rule(
        "basic token apikey negotiate",
        r"[ \t]{1,4}(?P<bare>(?=[^\s\d]{0,200}\d)[A-Za-z0-9_+/-]{16,8000}+=*)",
        lambda value: value.endswith("=") or is_random(value),
        "credentials",
    ),
    _Rule(
        "authorization",
        r"[\"']?\]?[ \t]{0,3}[:=,][ \t]{0,3}[\"'`]?(?:[a-z0-9-]{3,20}[ \t]{1,3})?(?P<bare>[A-Za-z0-9._~+/=:-]{8,4000}+)",
        _has_digit,
        "credentials",
    ),
    _Rule(
        "cookie cookies",
        r"[\"']?\]?[ \t]{0,3}[:=, ][ \t]{0,3}[\"'`]?(?P<bare>[\w.%-]{1,60}=(?=[^\s\d]{0,200}\d)[^\s\"'`;]{6,2000}+"
        r"(?:; ?[\w.%-]{1,60}=[^\s\"'`;]{1,2000}+){0,20})",
        kind="cookie",
    ),
    _Rule(
        "session sessionid sessid phpsessid jsessionid sid",
        r"(?:[_-]?(?:id|key|token))?=(?P<bare>[A-Za-z0-9%._+/-]{16,2000}+)",
        _is_strong,
        "cookie",
    ),
    # ---- queries
    _Rule("sig signature", r"=(?P<bare>[\w%+/=-]{16,4000}+)", _has_digit, "signature"),
    _Rule("security", r"-token=(?P<bare>[\w%+/=-]{16,4000}+)", kind="signature"),
    _Rule("key code appid", r"=(?P<bare>[\w.~-]{16,400}+)", _is_strong, "secret", before="(?<=[?&])"),
    # ---- commands and settings
    _Rule("identified", r"[ \t]{1,3}(?:with[ \t]{1,3}\S{1,40}[ \t]{1,3})?by[ \t]{1,3}[\"'](?P<bare>[^\"'\n]{3,200}+)"),
    _Rule(
        "curl wget http https ab aria2c",
        rf"{_THEN}(?:-u|--user|--proxy-user|-U|-a|-A)[ \t=]?[\"']?[^\s:\"'/]{{1,80}}:(?P<bare>{_B}{{2,200}}+)",
    ),
    _Rule("curl", rf"{_THEN}(?:-b|--cookie)[ \t=]?[\"']?(?P<bare>[\w.-]{{1,60}}=[^\"'\n]{{8,2000}}+)", kind="cookie"),
    _Rule(
        "mysql mysqldump mysqladmin mysqlsh mysqlimport mariadb",
        rf"\w{{0,10}}{_THEN}-p[\"']?(?P<bare>{_B}{{3,200}}+)",
    ),
    _Rule("rootpw bindpw requirepass masterauth", r"[ \t]{1,4}" + _VALUE_IS),
    _Rule("auth", rf"(?-i:(?<=AUTH))[ \t]{{1,2}}{_VALUE_IS}", _is_varied),
    _Rule("sftp lftp ftp scp", rf"{_THEN}[\w.-]{{1,60}}:(?P<bare>[^\s/\"'<>]{{3,100}})@(?=[\w.])"),
    _option("sudo su", r"<<<[ \t]{0,2}"),
    _Rule(
        "echo printf",
        rf"[ \t]{{1,4}}(?:-\w{{1,3}}[ \t]{{1,4}})?[\"']?(?P<bare>(?![-$]){_B}{{3,200}}+)[\"']?[ \t]{{0,3}}\|"
        r"[^\n]{0,80}?(?:sudo[ \t]{1,4}-S|--password-stdin|--stdin|passwd)\b",
    ),
    _Rule(
        "password",
        r"[ \t]{1,2}for[ \t]{1,2}\S{1,80}[ \t]{0,2}=[ \t]{0,2}(?:password\()?[\"'](?P<bare>[^\"'\n]{3,200}+)",
    ),
    _Rule("admin root administrator", rf"[:/](?P<bare>(?!/){_B}{{6,80}}+)", _is_varied),
    _Rule(
        "wifi fi wlan",
        rf"\b[^\n:]{{0,20}}:[ \t]{{0,2}}[^\n/,:]{{1,40}}[/,][ \t]{{0,2}}(?P<bare>{_B}{{6,80}}+)",
        _is_varied,
    ),
    _Rule("sshpass", r"[ \t]{1,9}-p[ \t]?" + _VALUE_IS),
    _option("7z 7za", "-p"),
    _option("zip unzip", r"-P[ \t]?"),
    _option("rar unrar", "-h?p"),
    _option(
        "docker podman helm oc az rdesktop skopeo crane nerdctl mongo mongosh mongodump mongorestore mongoexport mongoimport",
        r"-p[ \t]{1,9}",
        lambda value: not _PORTS.match(value),
    ),
    _Rule("redis", rf"-(?:cli|benchmark){_THEN}(?:-a|--pass)[ \t]{{1,9}}{_VALUE_IS}"),
    _option("ldapsearch ldapadd ldapmodify ldapwhoami ldapdelete ldappasswd", r"-w[ \t]{1,9}"),
    _option("sqlcmd bcp isql osql tsql", r"-P[ \t]?"),
    _option("plink pscp psftp putty", r"-pw[ \t]{1,9}"),
    _Rule(
        "htpasswd",
        rf"[ \t]{{1,9}}-\w{{0,4}}b\w{{0,4}}[ \t]{{1,9}}(?:\S{{1,80}}[ \t]{{1,9}})?\S{{1,80}}[ \t]{{1,9}}{_VALUE_IS}",
    ),
    _option("keytool jarsigner", r"-\w{0,10}pass[ \t]{1,9}"),
    _option("openssl", r"-(?:pass\w{0,4}[ \t]{1,9}(?:pass:)?|k[ \t]{1,9})"),
    _Rule("ssh", rf"-keygen{_THEN}-[NP][ \t]{{1,9}}{_VALUE_IS}"),
    _Rule("smbclient rpcclient", rf"{_THEN}-U[ \t]*[\"']?[\w.\\/]{{1,80}}%{_VALUE_IS}"),
    _Rule(
        "vault",
        rf"[ \t]{{1,9}}login[ \t]{{1,9}}(?:-method=\w{{1,20}}[ \t]{{1,9}})?{_VALUE_IS}",
        _has_digit,
        "token",
    ),
    _Rule(
        "net runas",
        r"[ \t]{1,9}(?:/user:\S{1,60}|user[ \t]{1,9}\S{1,60}|use\b[^\n]{0,100}?/user:\S{1,60})[ \t]{1,9}"
        rf"(?P<bare>(?![/-]){_B}{{3,200}}+)",
    ),
    _Rule("cmdkey", rf"\b[^\n]{{0,100}}?/pass:{_VALUE_IS}"),
    _Rule("xfreerdp", rf"\b[^\n]{{0,100}}?[ \t]/p:{_VALUE_IS}"),
    _Rule("rabbitmqctl", rf"[ \t]{{1,9}}(?:add_user|change_password)[ \t]{{1,9}}\S{{1,60}}[ \t]{{1,9}}{_VALUE_IS}"),
    _Rule(
        "echo printf",
        r"[ \t]{1,9}(?:-\w{1,9}[ \t]{1,9})?[\"']?[\w.-]{1,40}:(?P<bare>[^\s\"'|]{3,200}+)"
        r"[\"']?[ \t]{0,3}\|[ \t]{0,3}(?:sudo[ \t]{1,9})?chpasswd",
    ),
    _Rule("convertto", r"-securestring[^\n\"']{0,40}[\"'](?P<bare>[^\"'\n]{3,200}+)[\"']"),
    _Rule("5432 3306 6432", rf":[\w*-]{{1,60}}:[\w*-]{{1,60}}:(?P<bare>{_B}{{3,200}}+)", before="(?<=:)"),
    _Rule("wifi", r":\S{0,80}?;P:(?P<bare>[^;\s]{4,80}+)"),
    # ---- sentences
    _Rule(
        "login logins credential credentials creds account sign_in log_in",
        r"\b[^\n:=/]{0,40}?(?::|=|\bis\b|\bare\b|\bas\b|\bwith\b)"
        rf"[ \t]{{0,3}}[\"'`]?[\w.@+-]{{2,60}}[ \t]{{0,2}}[:/][ \t]{{0,2}}(?P<bare>(?!/){_B}{{6,80}}+)",
        _is_no_path,
    ),
    _Rule(
        "pin passcode cvv otp",
        r"(?:[ \t](?:code|number))?[ \t]{0,2}(?:is|:|=|was)[ \t]{0,3}(?P<bare>\d{3,8})(?![\w.])",
        kind="PIN",
    ),
    _Rule(
        "pin passcode",
        r"[ \t](?:code[ \t])?(?:for|to|of|on)(?:[ \t][\w'’-]{1,15}){1,4}?[ \t]{0,2}(?:is|:|=|was)[ \t]{1,3}"
        r"(?P<bare>[^\s\"'`<>]{4,60}+)",
        lambda value: (value.isdigit() and len(value) <= _MAX_PIN) or _is_strong(value),
        "PIN",
    ),
    # ---- error messages
    _Rule(
        "key",
        r"[ \t:]{1,2}[\"'`]?(?P<bare>[\w.~+/=-]{12,400}+)[\"'`]?[ \t]{1,2}(?:is|was|has)[ \t](?:(?:not|been|no|longer)[ \t]){0,2}"
        r"(?:valid|invalid|revoked|expired|incorrect|wrong|unknown|disabled|malformed|leaked|compromised|active|correct|rejected)",
        _is_strong,
        "secret",
    ),
    _Rule(
        "credential credentials key token",
        r"(?:[ \t][a-z]{1,12}){0,2}[ \t]{0,2}\([ \t]?[\"'`]?(?P<bare>[^\s\"'`()]{12,400}+)[\"'`]?[ \t]?\)",
        _is_strong,
        "secret",
    ),
    _Rule("kty", r"\"[^{}]{0,900}?\"d\"\s{0,4}:\s{0,4}\"(?P<bare>[\w-]{20,1000}+)", kind="private key"),
)


def _by_anchor() -> dict[str, list[tuple[_Rule, re.Pattern[str]]]]:
    """Return the rules with their compiled patterns. Each key is a word with which the matches of its rules can begin."""
    found: dict[str, list[tuple[_Rule, re.Pattern[str]]]] = {}
    for rule in _RULES:
        shape = f"{rule.before}(?:{rule.words.replace(' ', '|').replace('_', ' ')}){rule.shape}"
        for word in rule.words.split():
            pattern = re.compile(rf"(?<![a-z0-9])(?i:{shape})" if word[0].isalpha() else shape)
            found.setdefault(word.partition("_")[0], []).append((rule, pattern))
    return found


_BY_ANCHOR: Final = _by_anchor()
_RULE_ORDER: Final = {word.encode(): number for number, word in enumerate(_BY_ANCHOR)}
_RULE_WORDS: Final = frozenset(_RULE_ORDER)

CONTEXT_WORDS: Final = _PASSWORD_WORDS | _NAME_WORDS | _RULE_WORDS
"""Whole words in lower case at which a search starts. Other searches start at a part of a word, such as `pass`, or at `://`."""


def _by_rules(text: str, lower: str, word: str) -> Iterator[Found]:
    for at in _places(lower, word):
        for rule, pattern in _BY_ANCHOR[word]:
            hit = pattern.match(text, at)
            value = hit["bare"].rstrip(".,;:?)") if hit else ""
            if hit and value and not is_reference(value) and rule.is_secret(value):
                end = hit.start("bare") + len(value)
                is_last = rule.kind == "password" and hit.end("bare") == hit.end()
                yield Found(hit.start("bare"), _end_of_word(text, hit.end(), end) if is_last else end, rule.kind)
