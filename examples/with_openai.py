"""An OpenAI client with a long memory. The provider is fake, so no key and no network is needed.

Run it with `python examples/with_openai.py`. If you run it again, it uses the same memory. To use the real provider, remove
`http_client` and pass the name of a model. Needs `pip install "memolog[openai]"`.
"""

import json
from typing import Any

import httpx2
from openai import OpenAI

from memolog import SyncMemory
from memolog.adapters.openai import wrap

SEARCH = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "memory-search"}
QUESTIONS = ("Which hash should we use for passwords?", "What did we decide about hashes?")


def said(text: str) -> dict[str, Any]:
    """Return an answer in the form of the Responses API."""
    block: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [block]}


def provider(request: httpx2.Request) -> httpx2.Response:
    """Answer like a model: search the memory if the user asks what was decided, and report the result."""
    body = json.loads(request.content)
    print(f"  the model reads {len(body['input'])} items")
    last = body["input"][-1]
    if last.get("type") == "function_call_output":
        output = said("We settled on argon2id." if "64 MiB" in last["output"] else "I do not know.")
    elif "decide" in last["content"]:
        output = {**SEARCH, "arguments": json.dumps({"action": "search", "query": "argon2id"})}
    else:
        output = said("argon2id, with 64 MiB and three passes.")
    about = {"id": "resp_1", "object": "response", "created_at": 1, "model": "scripted", "status": "completed"}
    return httpx2.Response(200, json={**about, "output": [output], "tools": [], "tool_choice": "auto"})


def main() -> None:
    """Hold two conversations. In the second one the model searches for a fact from the first one."""
    http = httpx2.Client(transport=httpx2.MockTransport(provider))
    with SyncMemory("with_openai.db") as memory:
        client = OpenAI(api_key="none", http_client=http)
        for thread, question in zip(("monday", "tuesday"), QUESTIONS, strict=True):
            print(f"{thread}: {question}")
            remembering: Any = wrap(client, memory, thread=thread, resource="alice")
            tools = memory.resource("alice").tools(thread=thread)
            news: Any = question
            while True:
                # Pass only the new messages. The memory adds the earlier ones.
                answer = remembering.responses.create(
                    model="scripted",
                    input=news,
                    instructions=tools.guidance,
                    tools=tools.definitions("openai-responses"),
                )
                calls = [item for item in answer.output if item.type == "function_call"]
                if not calls:
                    break
                news = [
                    {
                        "type": "function_call_output",
                        "call_id": call.call_id,
                        "output": json.dumps(tools.call(call.name, call.arguments)),
                    }
                    for call in calls
                ]
            print(f"  {answer.output_text}")


if __name__ == "__main__":
    main()
