"""Write the three workloads. The sizes are exact tokens of o200k_base, and the same seed gives the same texts.

- W1, chat: one thread, 1,000 turns with 120 tokens of the user and 180 of the assistant.
- W2, tools: one turn with 300 tool calls, each with a result of 2,000 tokens.
- W3, threads: 200 threads of one resource with 20 turns each. The threads take turns.
"""

import json
import random
import re
from pathlib import Path

from splintr import Tokenizer

_SEED = 20_260_101
_QUESTION, _ANSWER, _RESULT, _QUERY = 120, 180, 2_000, 12
_SENTENCE, _VOCABULARY = 14, 1_500
# The first thousand tokens are bytes and syllables, the rare ones are names and other languages.
_COMMON = range(1_000, 40_000)
_WORD = re.compile(rb" [a-z]{4,9}")


class Texts:
    """Makes sentences of random words. Each word and each full stop is one token."""

    def __init__(self, words: list[str], seed: int) -> None:
        self._words, self._chance = words, random.Random(seed)

    def text(self, tokens: int) -> str:
        """Return a text of this many tokens."""
        sentences: list[str] = []
        while tokens > 1:
            length = min(_SENTENCE, tokens - 1)
            sentences.append(" ".join(self._chance.choices(self._words, k=length)) + ".")
            tokens -= length + 1
        return " ".join(sentences)

    def turns(self, count: int) -> list[dict[str, str]]:
        """Return questions and answers."""
        return [{"user": self.text(_QUESTION), "assistant": self.text(_ANSWER)} for _ in range(count)]


def _vocabulary() -> list[str]:
    tokenizer = Tokenizer.from_pretrained("o200k_base")
    pieces = (bytes(tokenizer.decode_token_bytes(number)) for number in _COMMON)
    words = [piece.decode().strip() for piece in pieces if _WORD.fullmatch(piece)]
    random.Random(_SEED).shuffle(words)
    return words[:_VOCABULARY]


def write_workloads(folder: Path, *, result: int = _RESULT) -> None:
    """Write `w1.json`, `w2.json` and `w3.json`. The results of W2 have `result` tokens."""
    words = _vocabulary()
    one, two, three = (Texts(words, _SEED + number) for number in (1, 2, 3))
    w1 = {"name": "W1", "threads": [{"id": "w1", "turns": one.turns(1_000)}]}
    calls = [{"arguments": {"query": two.text(_QUERY)}, "result": two.text(result)} for _ in range(300)]
    w2 = {"name": "W2", "user": two.text(_QUESTION), "final": two.text(_ANSWER), "steps": calls}
    w3 = {"name": "W3", "threads": [{"id": f"w3-{number:03}", "turns": three.turns(20)} for number in range(200)]}
    for work in (w1, w2, w3):
        (folder / f"{str(work['name']).lower()}.json").write_text(json.dumps(work), "utf-8")
