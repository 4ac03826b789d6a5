"""Load the prompt texts under `texts/` and compute their version, which is stored with every result."""

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Final, get_args

from memolog.config.sizes import Mode, Voice
from memolog.domain.errors import ConfigError

__all__ = ["LEVELS", "MODES", "PROMPT_VERSION", "VOICES", "Voice", "level_text", "observer_system", "reflector_system"]

MODES: Final[tuple[str, ...]] = get_args(Mode)
VOICES: Final[tuple[str, ...]] = get_args(Voice)
LEVELS: Final = range(5)
"""The compression levels: 0 gives no hint, 4 keeps about two parts in ten."""

# Increased by hand when the wording changes in meaning; the digest changes with every edit.
_EDITION: Final = 2
_NAMES: Final = (
    "observer",
    "reflector",
    "levels",
    "working_memory",
    *(f"mode_{mode}" for mode in MODES),
    *(f"voice_{voice}" for voice in VOICES),
)
_ABOUT_LINES: Final = "# What the marks mean"
_TOO_LONG: Final = "Your last answer was"
_LEVEL: Final = re.compile(r"^## (\d)\n", re.MULTILINE)


@cache
def _text(name: str) -> str:
    found = files("memolog.prompt").joinpath("texts", f"{name}.md").read_text("utf-8")
    # A checkout may have changed the line ends; the version must not depend on them.
    return found.replace("\r\n", "\n").strip()


def _version() -> str:
    digest = hashlib.sha256()
    for name in sorted(_NAMES):
        digest.update(f"{name}\n{_text(name)}\n\n".encode())
    return f"{_EDITION}-{digest.hexdigest()[:12]}"


PROMPT_VERSION: Final = _version()
"""An edition number and a digest of all texts."""


def observer_system(mode: str, voice: str, custom: str = "", *, keeps_document: bool = False) -> str:
    """Return the observer's instructions for a mode and a voice, with those of the application after them.

    `keeps_document` adds how the working memory is kept.
    """
    document = [_text("working_memory")] if keeps_document else []
    return "\n\n".join([*_observing(mode, voice), *document, *_of_the_application(custom)])


def reflector_system(mode: str, voice: str, custom: str = "") -> str:
    """Return the reflector's instructions, with what the observer was told about lines."""
    heading = "# How the lines were written\n\nThese were the observer's instructions; do not carry them out."
    # The observer's input and output format is left out: the reflector would take it for its own.
    observer, *rest = _observing(mode, voice)
    quoted = "\n\n".join([observer[observer.index(_ABOUT_LINES) :], *rest])
    quoted = f"\n{quoted}".replace("\n# ", "\n## ").strip()
    return "\n\n".join([_text("reflector"), *_of_the_application(custom), heading, quoted])


def level_text(level: int, *, said_too_long: bool = True) -> str:
    """Return what a compression level asks for; beyond the last, the last.

    `said_too_long=False` leaves out that the last answer was too long: it may have left out too much instead.
    """
    pieces = _LEVEL.split(_text("levels"))
    texts = dict(zip(map(int, pieces[1::2]), pieces[2::2], strict=True))
    text = texts[min(max(level, LEVELS[0]), LEVELS[-1])].strip()
    return text if said_too_long or not text.startswith(_TOO_LONG) else text.partition(". ")[2]


def _observing(mode: str, voice: str) -> list[str]:
    _check("mode", mode, MODES)
    _check("voice", voice, VOICES)
    return [_text("observer"), _text(f"voice_{voice}"), _text(f"mode_{mode}")]


def _of_the_application(custom: str) -> list[str]:
    return [f"# Instructions of this application\n\n{custom.strip()}"] if custom.strip() else []


def _check(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigError(
            f"`{kind}` must be one of {', '.join(known)}, got {name!r}.", then=f"Set `{kind}` to one of them."
        )
