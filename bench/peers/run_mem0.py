"""mem0 with its embedded vector store, a scripted model and an embedder that hashes words.

For each step it searches with the question, and then adds the question and the answer. mem0 has no agent loop and sends no
history, so its contexts cannot be compared with the others. Tool results are added as texts of the assistant, because mem0
drops tool messages.
"""

import hashlib
import json
import logging
import os
import shutil
import sys
import time
import types
from pathlib import Path
from typing import Any

from harness import RESOURCE, SYSTEM, Meter, Run, Step, condensed, versions

RUN = Run("mem0")
HOME = RUN.folder / RUN.stem
DIMENSIONS, TOP = 1_536, 20
# W3 would take many minutes. What was not done is counted in the result.
MOST_SECONDS = 280.0
shutil.rmtree(HOME, ignore_errors=True)
HOME.mkdir()
os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(HOME / "home"), OPENAI_API_KEY="none")
logging.disable(logging.CRITICAL)

import mem0.utils.factory as factories  # noqa: E402 - the library reads its environment when it is imported
import numpy as np  # noqa: E402
from mem0 import Memory  # noqa: E402
from mem0.embeddings.base import EmbeddingBase  # noqa: E402
from mem0.llms.base import LLMBase  # noqa: E402

NEW: dict[str, str] = {"text": ""}


class ScriptedModel(LLMBase):
    """Extracts the same words as the scripted observer of the other systems."""

    def generate_response(self, messages: list[dict[str, Any]], *_: object, **__: object) -> str:
        """Return the memories as JSON."""
        with RUN.scripted as scripted:
            facts = [
                {"id": str(number), "text": words, "attributed_to": "user"}
                for number, words in enumerate(condensed(NEW["text"]))
            ]
            answer = json.dumps({"memory": facts})
            scripted.call("observer", "", [json.dumps(message, ensure_ascii=False) for message in messages], answer)
        return answer


class HashedWords(EmbeddingBase):
    """Gives each word a place in the vector by its hash."""

    def embed(self, text: str, memory_action: object = None) -> list[float]:
        """Return the vector of a text."""
        del memory_action
        with RUN.scripted:
            vector = np.zeros(DIMENSIONS, dtype=np.float32)
            for word in text.split():
                value = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
                vector[value % DIMENSIONS] += 1.0 if value >> 63 else -1.0
            return (vector / (float(np.linalg.norm(vector)) or 1.0)).tolist()


def memory_at(path: Path) -> Memory:
    """Open a memory with the scripted model and embedder in place of OpenAI's."""
    module = types.ModuleType("scripted_models")
    module.__dict__.update(ScriptedModel=ScriptedModel, HashedWords=HashedWords)
    sys.modules["scripted_models"] = module
    classes = factories.LlmFactory.provider_to_class
    classes["openai"] = ("scripted_models.ScriptedModel", classes["openai"][1])
    factories.EmbedderFactory.provider_to_class["openai"] = "scripted_models.HashedWords"
    vectors = {"path": str(path / "vectors"), "collection_name": "mem0", "embedding_model_dims": DIMENSIONS}
    return Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": {**vectors, "on_disk": True}},
            "llm": {"provider": "openai", "config": {"model": "scripted"}},
            "embedder": {"provider": "openai", "config": {"model": "scripted", "embedding_dims": DIMENSIONS}},
            "history_db_path": str(path / "history.db"),
        }
    )


def exchanges(steps: list[Step]) -> list[tuple[str, str, str]]:
    """Return thread, question and answer of each step. A tool call is a question, and its result the answer."""
    if RUN.workload != "W2":
        return [(step.thread, step.given["content"], step.answer["content"]) for step in steps]
    results = [step.given for step in steps if step.given["role"] == "tool"]
    return [("w2", given["call"]["arguments"]["query"], given["content"]) for given in results]


def play(memory: Memory, steps: list[Step], meter: Meter, seconds: float) -> None:
    """Search and add for every step, until the time is over."""
    end = time.perf_counter() + seconds
    for thread, question, answer in exchanges(steps):
        NEW["text"] = f"{question} {answer}"
        said = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        with meter:
            found = memory.search(question, filters={"user_id": RESOURCE}, top_k=TOP)["results"]
            with RUN.scripted as scripted:
                known = SYSTEM + "\n" + "\n".join(f"- {row['memory']}" for row in found)
                scripted.call("agent", thread, [json.dumps(known), json.dumps(question)], answer)
            memory.add(said, user_id=RESOURCE)
        if time.perf_counter() > end:
            return


if __name__ == "__main__":
    (HOME / "warm").mkdir()
    (HOME / "data").mkdir()
    play(memory_at(HOME / "warm"), RUN.steps(10), RUN.warm(), MOST_SECONDS)
    memory = memory_at(HOME / "data")
    RUN.begin()
    play(memory, RUN.steps(), RUN.turn, MOST_SECONDS)
    RUN.end(HOME / "data", versions=versions("mem0ai", "qdrant-client"))
