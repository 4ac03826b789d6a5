"""Answer questions: a model with or without tools, or a reader without a model that returns the best line of the context."""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from memolog import Memory, ModelRequest
from memolog.apps.eval.arms import Arm, Piece, Prompt, found_for, found_in_tools, prompt_for
from memolog.apps.eval.budget import COUNTER, MeteredModel
from memolog.apps.eval.datasets import History, Question
from memolog.apps.eval.string_judge import content_terms, facts_of
from memolog.context.context import ContextMessage
from memolog.core.message import TextPart, ToolCallPart, ToolResultPart
from memolog.core.model_names import context_window
from memolog.errors import MemologError
from memolog.text.words import normal, words_of

ROUNDS: Final = 6
"""How often a model may call tools for one question. Then it must answer."""
_REPLY_TOKENS: Final = 1_000
_SECONDS: Final = 300.0
UNKNOWN: Final = "I do not know."
_LONGEST: Final = 400
# The share of the question, weighted by rarity, that a line must have to be an answer.
_ENOUGH: Final = 0.3
_OF_USER: Final = 1.3
_FITTING: Final = 1.3
_COUNTING: Final = re.compile(
    r"\b(?:how (?:many|much|long|often|old|fast)|cu[aá]nt[oa]s?|combien|wie ?(?:viele?|hoch|lang|oft)|quant[oiae]s?)\b"
    r"|いくつ|何(?:人|時|個|歳)",
    re.IGNORECASE,
)
_DATING: Final = re.compile(
    r"\b(?:when|which (?:day|date|month)|what (?:day|date|month)|cuándo|quand|wann|quando)\b|いつ|何日", re.IGNORECASE
)
_SENTENCE: Final = re.compile(r"(?<=[.!?。！？])\s+|\n+|(?<=[。！？])")
_STAMP: Final = re.compile(r"\A\[[^\]]*\] [^:\n]{1,80}?: |\A\[\d{4}-[^\]]*\] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The answer of a reader, the pieces that it saw, and the size of its context."""

    text: str
    pieces: tuple[Piece, ...]
    tokens: int
    searches: int = 0


class Reader(Protocol):
    """Answers questions from what an arm shows."""

    async def read(self, arm: Arm, memory: Memory | None, history: History, question: Question) -> Reading:
        """Return the answer to a question."""
        ...


class TooLong(MemologError):
    """A context is larger than the context window of the model, so the model was not asked."""

    def __init__(self, tokens: int, window: int) -> None:
        super().__init__(f"The context of {tokens:,} tokens exceeds the {window:,} tokens of the model.")
        self.tokens = tokens


class ExtractiveReader:
    """Returns the line of the context that has most words of the question. Needs no model."""

    async def read(self, arm: Arm, memory: Memory | None, history: History, question: Question) -> Reading:
        """Return the best line, or `UNKNOWN` if no line is about the question."""
        prompt = await prompt_for(arm, memory, history, question)
        if arm.uses_search and memory is not None:
            prompt = prompt.with_results(await found_for(memory, history, question))
        return Reading(
            text=best_line(question.text, prompt.pieces),
            pieces=prompt.pieces,
            tokens=prompt.tokens,
            searches=int(arm.uses_search),
        )


def best_line(question: str, pieces: Sequence[Piece]) -> str:
    """Return the line that has the largest share of the words of a question; of equal lines, the last one.

    Rare words weigh more than common ones. A line is a sentence of a message or a line of the log. Lines of the user count more,
    and so do lines with a number or a date if the question asks for one.
    """
    lines = [line for piece in pieces for line in _lines(piece)]
    words = [_words(text) for text, _, _ in lines]
    counts = Counter(word for one in words for word in one)
    wanted = _words(question)
    weights = {word: math.log(1 + len(lines) / (1 + counts[word])) for word in wanted}
    total = sum(weights.values())
    best, text = 0.0, UNKNOWN
    known = facts_of(question)
    for (shown, body, piece), one in zip(lines, words, strict=True):
        # The words of the whole message help to choose among its sentences, but less than those of the sentence.
        near = sum(weights[word] for word in wanted & _words(piece.text))
        score = sum(weights[word] for word in wanted & one) + near / 4
        if score < _ENOUGH * total or not one or shown.rstrip().endswith(("?", "？")):
            continue
        score *= _OF_USER if piece.is_of_user else 1
        if _COUNTING.search(question) and facts_of(body).numbers - known.numbers:
            score *= _FITTING
        if _DATING.search(question) and facts_of(body).days - known.days:
            score *= _FITTING
        if score >= best:
            best, text = score, shown
    return text[:_LONGEST]


def _lines(piece: Piece) -> list[tuple[str, str, Piece]]:
    """Return the lines of a piece: each with its time and speaker, without them, and with its piece."""
    stamp = hit[0] if (hit := _STAMP.match(piece.text)) else ""
    body = piece.text[len(stamp) :]
    if piece.place == "log":
        return [(piece.text, body, piece)]
    return [(f"{stamp}{line.strip()}", line, piece) for line in _SENTENCE.split(body) if line.strip()]


@lru_cache(maxsize=16_384)
def _words(text: str) -> frozenset[str]:
    return frozenset(term for word in words_of(normal(text)) for term in content_terms(word))


class ModelReader:
    """Asks a model. In an arm with search the model is offered the tools of the memory, if it can call tools."""

    def __init__(self, model: MeteredModel) -> None:
        self._model = model

    async def read(self, arm: Arm, memory: Memory | None, history: History, question: Question) -> Reading:
        """Return the answer of the model."""
        prompt = await prompt_for(arm, memory, history, question)
        window = context_window(self._model.name)
        if window is not None and prompt.tokens > window:
            raise TooLong(prompt.tokens, window)
        if not self._model.takes_tools:
            if arm.uses_search and memory is not None:
                prompt = prompt.with_results(await found_for(memory, history, question))
            reply = await self._model.complete(_request(prompt.system, prompt.text))
            return Reading(text=reply.text, pieces=prompt.pieces, tokens=prompt.tokens, searches=int(arm.uses_search))
        if arm.uses_search and memory is not None:
            return await self._with_tools(prompt, memory, history)
        reply, _ = await self._converse(prompt.system, prompt.messages, [])
        return Reading(text=reply, pieces=prompt.pieces, tokens=prompt.tokens)

    async def _with_tools(self, prompt: Prompt, memory: Memory, history: History) -> Reading:
        # Questions are asked side by side, so none may change the memory: the tools are offered with their reading actions.
        tools = memory.resource(history.id).tools(read_only=True)
        system = f"{prompt.system}\n\n{tools.guidance}"
        messages, answers, tokens = list(prompt.messages), list[dict[str, Any]](), prompt.tokens
        text = ""
        for number in range(ROUNDS + 1):
            offered = tools.definitions() if number < ROUNDS else []
            text, calls = await self._converse(system, messages, offered)
            if not calls or not offered:
                break
            said = (TextPart(text=text),) if text else ()
            messages.append(ContextMessage(role="assistant", parts=(*said, *calls)))
            for call in calls:
                answer = await tools.call(call.name, call.arguments)
                answers.append(answer)
                shown = json.dumps(answer, ensure_ascii=False)
                tokens += COUNTER.count(shown)
                result = ToolResultPart(call_id=call.id, name=call.name, content=shown)
                messages.append(ContextMessage(role="tool", parts=(result,)))
        pieces = (*prompt.pieces, *found_in_tools(answers, history))
        return Reading(text=text, pieces=pieces, tokens=tokens, searches=len(answers))

    async def _converse(
        self, system: str, messages: Sequence[ContextMessage], tools: Sequence[Any]
    ) -> tuple[str, tuple[ToolCallPart, ...]]:
        from memolog.adapters.pydantic_ai.messages import to_model_messages  # noqa: PLC0415 - an extra

        # The text is only counted; the messages are sent.
        request = _request(system, "\n".join(message.render() for message in messages))
        reply, calls = await self._model.converse(to_model_messages(messages), request, tools)
        return reply.text, calls


def _request(system: str, text: str) -> ModelRequest:
    return ModelRequest(
        purpose="turn", system=system, text=text, temperature=0.0, max_tokens=_REPLY_TOKENS, timeout=_SECONDS
    )
