"""Shapes of the replies that small models were recorded to give, each as a function of what the model was asked.

The words are taken from the prompt, as the models took them, so that a shape fits any conversation.
"""

import inspect
import re
from collections.abc import Callable

from memolog.observer.model import ModelRequest

__all__ = ["SHAPES", "Shape"]

Shape = Callable[[ModelRequest], str]

_MESSAGE = re.compile(r"^<message>\[(\d+)\] (\d\d:\d\d) (\w+)[^\n]*:\n(.*?)\n</message>", re.MULTILINE | re.DOTALL)
_DAY = re.compile(r"<day>\w+ (\d{4}-\d\d-\d\d)")


def _section(text: str, tag: str) -> str:
    found = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return found[1] if found else ""


def _said(request: ModelRequest) -> list[tuple[str, str, str, str]]:
    """Return the number, the time, the role and the words of each message that was shown."""
    return _MESSAGE.findall(_section(request.text, "transcript"))


def _tagged(*lines: str) -> str:
    return "<observations>\n" + "\n".join(lines) + "\n</observations>"


def copied_log(request: ModelRequest) -> str:
    """Copy the end of the log instead of reading the transcript; where there is no log yet, keep the first message."""
    shown = [line for line in _section(request.text, "log-end").split("\n") if line.lstrip().startswith("*")]
    if shown:
        return _tagged(*(f"{line} [{_said(request)[0][0]}]" for line in shown))
    number, time, _, words = _said(request)[0]
    return _tagged(f"* 🔴 ({time}) User said: {words} [{number}]")


def placeholders(request: ModelRequest) -> str:
    """Give the format back: its example lines, and its hints as they stand in the instructions."""
    lines = re.findall(r"^\s*\* .*\[[\d,-]+\]$", request.system, re.MULTILINE)
    tags = ("current-task", "suggested-response", "thread-title")
    hints = [hit[0] for tag in tags if (hit := re.search(rf"<{tag}>.*?</{tag}>", request.system, re.DOTALL))]
    return "\n".join([_tagged(*lines), *hints])


def no_citations(request: ModelRequest) -> str:
    """Write a few lines without their numbers, and leave out most of what was said."""
    told = [words for _, _, role, words in _said(request) if role == "user"]
    return _tagged(*(f"* 🔴 User said: {words}" for words in told[:2]))


def one_date(request: ModelRequest) -> str:
    """Put all days under the first, at times that were never shown, and cite nothing."""
    day = (_DAY.findall(request.text) or ["2031-05-06"])[0]
    told = [words for _, _, role, words in _said(request) if role == "user"]
    lines = [f"* 🔴 (0{place % 9 + 1}:37) User said: {words}" for place, words in enumerate(told)]
    return _tagged(f"Date: {day}", *lines)


def invented_times(request: ModelRequest) -> str:
    """Cite the right messages under days and times of the model's own making."""
    told = [(number, words) for number, _, role, words in _said(request) if role == "user"]
    lines = [f"* 🔴 (2{place % 4}:59) User said: {words} [{number}]" for place, (number, words) in enumerate(told)]
    return _tagged("Date: 2031-05-06", *lines)


def echo_of_the_prompt(request: ModelRequest) -> str:
    """Repeat what was sent."""
    return f"{request.system}\n\n{request.text}"


def echo_of_the_transcript(request: ModelRequest) -> str:
    """Repeat what was said."""
    return _section(request.text, "transcript")


def refusal_as_a_line(request: ModelRequest) -> str:
    """Refuse in the format that was asked for."""
    number, time, *_ = _said(request)[0]
    return _tagged(f"* 🟡 ({time}) I'm sorry, but I can't assist with that request. [{number}]")


_REFUSALS = (
    "Unfortunately, I can't help with this conversation.",
    "Leider kann ich diese Anfrage nicht bearbeiten.",
    "Lo siento, no puedo ayudar con eso.",
    "Je suis vraiment désolé, je ne peux pas traiter cette demande.",
    "Mi dispiace, non posso aiutarti.",
    "Desculpe, não posso processar este pedido.",
    "Het spijt me, dat kan ik niet doen.",
    "Content omitted.",
    "N/A",
)


def refusal_in_other_words(request: ModelRequest) -> str:
    """Refuse each message in another language, in the format that was asked for."""
    lines = [
        f"* 🔴 ({time}) {_REFUSALS[place % len(_REFUSALS)]} [{number}]"
        for place, (number, time, *_) in enumerate(_said(request))
    ]
    return _tagged(*lines)


def refusal_in_german(request: ModelRequest) -> str:
    """Refuse without the format."""
    del request
    return "Es tut mir sehr leid, aber dabei kann ich nicht helfen."


def lines_without_content(request: ModelRequest) -> str:
    """Say of each message that something was said."""
    return _tagged(*(f"* 🔴 ({time}) User told a fact [{number}]" for number, time, *_ in _said(request)))


def unfilled_lines(request: ModelRequest) -> str:
    """Leave the places of the format empty."""
    return _tagged(*(f"* 🔴 ({time}) <what the user stated> [{number}]" for number, time, *_ in _said(request)))


def invented(request: ModelRequest) -> str:
    """Cite each message for something that nobody said."""
    return _tagged(*(f"* 🔴 ({time}) User owns a green submarine [{number}]" for number, time, *_ in _said(request)))


def echo_as_lines(request: ModelRequest) -> str:
    """Repeat what was said with all that stands around it, each row as a line of the log."""
    return _tagged(*(f"* {row}" for row in _section(request.text, "transcript").split("\n")))


def cut_off(request: ModelRequest) -> str:
    """Begin well, and end in the middle of the second line."""
    (number, time, _, words), *_ = _said(request)
    return f"<observations>\n* 🔴 ({time}) User said: {words} [{number}]\n* 🟡 (10:0"


def cut_off_at_once(request: ModelRequest) -> str:
    """End before a single line is whole."""
    return f"<observations>\n* 🔴 ({_said(request)[0][1]}) User sai"


def answer_to_the_user(request: ModelRequest) -> str:
    """Answer the last question instead of observing it."""
    del request
    return "You should visit the old harbour first. Here are three tips: take a hat, drink water, and enjoy the sunset!"


def vague(request: ModelRequest) -> str:
    """Say in one line, which cites all of it, that there was a conversation."""
    numbers = [number for number, *_ in _said(request)]
    return _tagged(f"* 🟡 Different topics were discussed in detail [{numbers[0]}-{numbers[-1]}]")


SHAPES: dict[str, Shape] = {
    name: made for name, made in list(globals().items()) if inspect.isfunction(made) and not name.startswith("_")
}
"""Every function of this module, by its name."""
