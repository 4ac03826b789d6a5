"""Secrets: found by pattern and replaced by a word that says what stood there.

Knows the shapes of common keys, tokens and passwords. Works on any text in linear time; knows nothing of messages.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from memolog.domain.errors import ConfigError

__all__ = ["NO_REDACTION", "REDACTION", "Redactor", "SecretPattern", "secret_patterns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPattern:
    """A shape that secrets of one kind have. A group named `secret`, if there is one, is all that is replaced."""

    kind: str
    pattern: re.Pattern[str]


def secret_patterns(given: Iterable[tuple[str, str]]) -> tuple[SecretPattern, ...]:
    """Return further patterns from pairs of kind and regular expression, as a configuration holds them."""
    return tuple(_compiled(kind, expression) for kind, expression in given)


def _compiled(kind: str, expression: str) -> SecretPattern:
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise ConfigError(
            f"The pattern for {kind!r} is no regular expression.",
            why=str(error),
            then="Correct it; Python's syntax applies.",
        ) from error
    if pattern.match("") or not kind.strip():
        raise ConfigError(
            f"The pattern for {kind!r} cannot be used.",
            why="It has no kind, or it matches the empty text, which is everywhere.",
            then="Name its kind, and make it match at least one character.",
        )
    return SecretPattern(kind=kind.strip(), pattern=pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redactor:
    """Replaces secrets by `[redacted: kind]`."""

    extra: tuple[SecretPattern, ...] = field(default=())
    enabled: bool = True

    def redact(self, text: str) -> str:
        """Return the text without its secrets; what is redacted already stays as it is."""
        return self.report(text)[0]

    def report(self, text: str) -> tuple[str, dict[str, int]]:
        """Return the text without its secrets, and how many of each kind there were."""
        found: dict[str, int] = {}
        if not self.enabled:
            return text, found

        def replace(kind: str) -> str:
            found[kind] = found.get(kind, 0) + 1
            return f"[redacted: {kind}]"

        text = _without_key_blocks(text, replace)
        for pattern in self.extra:
            text = _without(pattern, text, replace)
        # Most texts hold no secret: looking for a few letters first is many times faster than any pattern.
        if any(start in text for start in _STARTS):
            text = _KEYS.sub(lambda hit: replace(_KINDS[hit.lastgroup or ""]), text)
        lower = text.lower()
        for words, pattern in _CONTEXT:
            if any(word in lower for word in words):
                text = _without(pattern, text, replace)
        return text, found


def _without(pattern: SecretPattern, text: str, replace: Callable[[str], str]) -> str:
    named = "secret" in pattern.pattern.groupindex

    def swap(hit: re.Match[str]) -> str:
        if not named:
            return replace(pattern.kind)
        secret = hit["secret"]
        if secret is None or _is_no_secret(secret):
            return hit[0]
        start = hit.start("secret") - hit.start()
        return hit[0][:start] + replace(pattern.kind) + hit[0][start + len(secret) :]

    return pattern.pattern.sub(swap, text)


_REFERENCE: Final = re.compile(r"\[redacted|<|&lt;|\$|%|\{|\*{3}|x{4}|\.{3}|…", re.IGNORECASE)


def _is_no_secret(value: str) -> bool:
    """Return whether a value refers to a secret, or stands for one, instead of being one."""
    return bool(_REFERENCE.match(value))


# ---------------------------------------------------------------- blocks

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY: Final = re.compile(r"[A-Za-z0-9+/=\s\\:,.-]*+")
# A key that was torn from its first line is still a key; no key has more text than this.
_LONGEST_KEY: Final = 20_000


def _without_key_blocks(text: str, replace: Callable[[str], str]) -> str:
    """Replace blocks of private keys, also those whose end or beginning was cut off."""
    pieces: list[str] = []
    at = 0
    while end := _END.search(text, at):
        begin = _BEGIN.search(text, at, end.start())
        start = begin.start() if begin else _start_of_base64(text, at, end.start())
        pieces += [text[at:start], replace("private key")]
        at = end.end()
    begin = _BEGIN.search(text, at)
    if begin:
        body = _KEY_BODY.match(text, begin.end())
        pieces += [text[at : begin.start()], replace("private key")]
        at = body.end() if body else begin.end()
    return "".join([*pieces, text[at:]])


def _start_of_base64(text: str, low: int, end: int) -> int:
    low = max(low, end - _LONGEST_KEY)
    start = end
    while start > low and (text[start - 1].isalnum() or text[start - 1] in "+/=\n\r\\"):
        start -= 1
    return start


# ---------------------------------------------------------------- keys that can be told by their beginning

# The kind, what every such key has somewhere in it, and the shape.
_SHAPES: Final[tuple[tuple[str, str, str], ...]] = (
    ("Anthropic key", "sk-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    ("OpenRouter key", "sk-", r"sk-or-[A-Za-z0-9_-]{16,}"),
    ("OpenAI key", "sk-", r"sk-[A-Za-z0-9_-]{20,}"),
    ("Stripe key", "_live_ _test_ whsec_", r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,}"),
    ("AWS key", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Z])"),
    (
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}",
    ),
    ("GitLab token", "glpat- gldt- glrt- glptt- glsoat- glcbt-", r"gl(?:pat|dt|rt|ptt|soat|cbt)-[A-Za-z0-9_.-]{20,}"),
    ("Slack token", "xox xapp-", r"xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}"),
    ("Google key", "AIza GOCSPX- ya29.", r"AIza[0-9A-Za-z_-]{35}|GOCSPX-[0-9A-Za-z_-]{20,}|ya29\.[0-9A-Za-z_-]{20,}"),
    ("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    ("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    ("xAI key", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    ("Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{32,}"),
    ("Replicate token", "r8_", r"r8_[A-Za-z0-9]{30,}"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_-]{40,}"),
    ("SendGrid key", "SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    ("DigitalOcean token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    ("Databricks token", "dapi", r"dapi[a-f0-9]{32}"),
    ("Shopify token", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("Vault token", "hvs. hvb.", r"hv[sb]\.[A-Za-z0-9_-]{24,}"),
    ("Supabase token", "sbp_", r"sbp_[a-f0-9]{40}"),
    ("Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),
    ("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    ("Telegram token", ":AA", r"\d{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
    ("Twilio key", "SK", r"SK[0-9a-f]{32}(?![0-9a-f])"),
    ("age key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    ("JWT", "eyJ", r"eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?"),
)
_STARTS: Final = tuple(sorted({start for _, starts, _ in _SHAPES for start in starts.split()}))
_KINDS: Final = {f"k{number}": kind for number, (kind, _, _) in enumerate(_SHAPES)}
# A key begins where no word or key is going on: so no run of letters is looked at twice.
_KEYS: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?:" + "|".join(f"(?P<k{number}>{shape})" for number, (_, _, shape) in enumerate(_SHAPES)) + ")"
)

# ---------------------------------------------------------------- secrets that only their context gives away

_PASS_WORDS: Final = ("pass", "pwd")
_KEY_WORDS: Final = ("secret", "token", "credential", "key")
_PASSWORD: Final = r"(?i:pass(?:word|wd|phrase|code)|pwd)"  # noqa: S105 - finds them, is none
_KEY: Final = r"(?i:secret|token|credential|(?:api|access|account|auth|signing|encryption|private|shared)[ _-]?key)"
# An assignment in code, in JSON (also inside a JSON string), in a settings file or in a command.
_IS: Final = r"[\w-]{0,24}(?:\\?[\"'`])?[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}"
_LITERAL: Final = r"\\?(?P<quote>[\"'`])(?P<secret>%s[^\"'`\\\n]{%d,500})\\?(?P=quote)"
_SCHEME: Final = r"(?i:\b(?:%s))[ \t]{1,4}(?P<secret>(?=[^\s\d]{0,200}\d)[A-Za-z0-9%s]{%d,8000}=*)"
# Without quotes it may be a word of the language or a name in code: only what mixes letters and digits is taken.
_MIXED: Final = r"(?P<secret>(?=[^\s\d]{0,100}\d)(?=[^\sA-Za-z]{0,100}[A-Za-z])%s[^\s\"'`,;(){}\[\]<>&]{6,500})"
_BARE: Final = _MIXED % r"(?![A-Za-z_]\w{0,100}[.(\[])"

_IN_CONTEXT: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (("hooks.slack",), "webhook", r"https://hooks\.slack\.com/(?P<secret>\w{4,12}/[A-Za-z0-9/_-]{20,200})"),
    (("/webhooks/",), "webhook", r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{10,25}/[A-Za-z0-9_-]{30,100})"),
    (("://",), "password", r"://[^\s:/@\"'<>]{0,200}:(?P<secret>[^\s/@\"'<>]{1,200})@"),
    (("bearer",), "bearer token", _SCHEME % ("bearer", r"._~+/-", 12)),
    (("basic", "token"), "credentials", _SCHEME % ("basic|token", r"_+/-", 16)),
    (
        ("sig", "security-token"),
        "signature",
        r"[?&;](?i:sig|[\w-]{0,7}signature|[\w-]{0,6}security-token)=(?P<secret>[\w%+/=-]{16,4000})",
    ),
    (_PASS_WORDS, "password", _PASSWORD + _IS + _LITERAL % ("", 4)),
    (_KEY_WORDS, "secret", _KEY + _IS + _LITERAL % (r"(?=[^\s\d\"'`]{0,100}\d)", 6)),
    (_PASS_WORDS, "password", _PASSWORD + _IS + _BARE),
    (_KEY_WORDS, "secret", _KEY + _IS + _BARE),
    (_PASS_WORDS, "password", rf"\b{_PASSWORD}(?i:[ \t](?:is|was|to))[ \t]{{1,4}}[\"'`]?" + _MIXED % ""),
)
"""What must be somewhere in the text in lower case, the kind, and the shape."""

_CONTEXT: Final = tuple(
    (words, SecretPattern(kind=kind, pattern=re.compile(shape))) for words, kind, shape in _IN_CONTEXT
)

REDACTION: Final = Redactor()
"""The patterns that ship."""

NO_REDACTION: Final = Redactor(enabled=False)
"""Leaves every text as it is."""
