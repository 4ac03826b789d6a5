"""Compare model names and look up context windows.

Providers, gateways and responses write the name of one model in many ways (`openai-responses:gpt-5`, `gpt-5-2025-08-07`). Other
sizes and versions are other models, such as `gpt-5` and `gpt-5-mini`.
"""

import re
from functools import lru_cache
from typing import Final

# Providers, gateways and publishers whose name may precede the name of a model, followed by ":" or "/".
_HOST: Final = re.compile(
    r"(?:"
    r"ai21|alibaba|amazon|anthropic|aws|azure|azure-ai|azure-openai|azure_ai|azure_openai|bedrock|"
    r"bedrock_converse|cerebras|cohere|dashscope|databricks|deepinfra|deepseek|deepseek-ai|fireworks|"
    r"fireworks_ai|gateway|gemini|github|github_models|google|google-gla|google-vertex|google_anthropic_vertex|"
    r"google_genai|google_vertexai|grok|groq|heroku|hosted_vllm|huggingface|litellm|lm_studio|lmstudio|meta|"
    r"meta-llama|meta_llama|microsoft|minimax|mistral|mistralai|moonshot|moonshotai|nebius|novita|nvidia|"
    r"nvidia_nim|ollama|ollama_chat|openai|openai-chat|openai-responses|openrouter|ovhcloud|perplexity|qwen|"
    r"replicate|sambanova|together|together_ai|togetherai|vercel|vertex_ai|vertexai|vllm|x-ai|xai|z-ai|zai"
    # A tag is not a model name: `mistral:7b` is a model with a tag, but in `mistral:ministral-8b` the first word is a host.
    r")[:/](?!latest$|\d[\dx.]*b\b)(?=.)"
)
_PATH: Final = re.compile(r"\A.*\b(?:models|foundation-model|inference-profile)/(?=.)", re.DOTALL)
_BEDROCK: Final = re.compile(
    r"(?:(?:us|us-gov|eu|apac|global|jp|au|ca|sa)\.)?"
    r"(ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshotai?|nvidia|openai|qwen|xai|zai)\.(?=.)"
)
_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_DAY: Final = r"(?:0[1-9]|[12]\d|3[01])"
_SUFFIXES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<=.)\[\w+\]$",
        # Bedrock's revision, with or without the size of the window: `-v1:0`, `-1:0`, `-v1:0:200k`.
        r"(?<=.)-v?\d+:\d+(?::\w+)?$",
        r"(?<=.):(?:free|nitro|floor|online|exacto|extended|beta)$",
        r"(?<=.)[-:@](?:latest|default)$",
        r"(?<=.)[-@]00\d$",
        rf"(?<=.)[-@]20\d\d-?{_MONTH}-?{_DAY}(?=[-:@]|$)",
        rf"(?<=.)-{_MONTH}-20\d\d$",
        rf"(?<=-preview)-{_MONTH}-{_DAY}$|(?<=-exp)-{_MONTH}-{_DAY}$",
        # Month and day, year and month, or year, month and day, in two digits each.
        rf"(?<=.)-(?:{_MONTH}{_DAY}|2[3-9]{_MONTH}(?:{_DAY})?)(?=[-:@]|$)",
    )
)
_CLAUDE_VERSION_FIRST: Final = re.compile(r"^claude-(\d+(?:-\d+)?)-([a-z]+)(?=-|$)")
_CLAUDE_REVISION: Final = re.compile(r"(?<=[a-z\d])-v\d+$|(?<=-\d)-0$")
_DOT: Final = re.compile(r"(?<=\d)\.(?=\d)")
_LLAMA: Final = re.compile(r"\bllama-?v?(\d)(?:[.p-](\d))?(?=[-:@]|$)")

_K: Final = 1_000
_WINDOWS: Final = tuple(
    (re.compile(rf"(?:{pattern})(?=[-:@]|$)"), tokens)
    for pattern, tokens in (
        # The first pattern that matches is used. If input and output have separate limits, this is the limit of the input.
        (r"gpt-5\.3-codex", 272 * _K),
        (r"gpt-5\.3|gpt-5(?:\.\d+)?-chat|chatgpt-4o|gpt-4o|gpt-4-turbo|gpt-4-preview|gpt-4-vision|gpt-audio", 128 * _K),
        (r"gpt-5\.4-(?:mini|nano)|gpt-5(?:\.[12])?", 272 * _K),
        (r"gpt-5\.[4-6]|gpt-6(?:\.1)?", 922 * _K),
        (r"gpt-4\.1", 1_047_576),
        (r"gpt-4-32k", 32_768),
        (r"gpt-4", 8_192),
        (r"gpt-3\.5-turbo", 16_385),
        (r"gpt-oss", 131_072),
        (r"o1-(?:mini|preview)", 128 * _K),
        (r"o[134]|codex-mini", 200 * _K),
        (r"claude-(?:opus|sonnet)-4-[6-9]|claude-(?:opus|sonnet|haiku|fable)-5(?:-\d)?", 1_000 * _K),
        (
            r"claude-(?:opus|sonnet|haiku)-(?:3|4)(?!-\d)|claude-(?:opus|sonnet|haiku)-(?:3-[57]|4-[15])|claude-2(?:-1)?",
            200 * _K,
        ),
        (r"gemini-1\.5-pro", 2_097_152),
        (r"gemini-[\w.-]*(?:tts|live|image|audio|embedding|robotics)[\w.-]*", 0),
        (r"gemini-(?:1\.5|2\.\d|3|3\.\d|4)(?:-\w+)*|gemini-(?:flash|flash-lite|pro)", 1_048_576),
        (r"gemma-4", 262_144),
        (r"gemma-3-1b", 32_768),
        (r"gemma-3", 131_072),
        (r"mistral-large-4", 1_048_576),
        (r"codestral|devstral|mistral-(?:large|small)|mistral-medium-3-5|ministral-(?:8|14)b", 262_144),
        (r"mistral-medium|ministral|magistral|pixtral|(?:open-)?mistral-nemo", 131_072),
        (r"(?:open-)?mixtral-8x22b", 65_536),
        (r"(?:open-)?mi[sx]tral-(?:8x)?7b", 32_768),
        (r"llama-4-scout", 10_000 * _K),
        (r"llama-4-maverick", 1_000 * _K),
        (r"llama-3\.[123]", 131_072),
        (r"llama-3", 8_192),
        (r"deepseek-(?:v4|flash)", 1_000 * _K),
        (r"deepseek-(?:chat|reasoner|v3(?:\.\d)?|r1)", 131_072),
        (r"qwen-(?:plus|flash|turbo)|qwen3-coder-(?:plus|flash)", 1_000 * _K),
        (r"qwen3-(?:max|coder|next)", 262_144),
        (r"qwen3|qwen2\.5|qwq", 131_072),
        (r"qwen-max", 32_768),
        (r"grok-4(?:-1|\.1)?-fast", 2_000 * _K),
        (r"grok-4\.(?:20|3)", 1_000 * _K),
        (r"grok-4\.[5-7]", 500 * _K),
        (r"grok-4|grok-code-fast|grok-build", 256 * _K),
        (r"grok-[23]", 131_072),
    )
)


@lru_cache(maxsize=1024)
def canonical_model(name: str) -> str:
    """Return the canonical name of a model: without provider, date and aliases, in lower case."""
    known = name.strip().lower()
    while (shorter := _shorter(known)) != known:
        known = shorter
    return known or name


@lru_cache(maxsize=1024)
def context_window(model: str) -> int | None:
    """Return the maximum input tokens of a model, by any of its names. None means that the limit is unknown."""
    if model.strip().lower().endswith("[1m]"):
        return 1_000 * _K
    name = canonical_model(model).removeprefix("ft:")
    return next((tokens or None for pattern, tokens in _WINDOWS if pattern.match(name)), None)


def _shorter(name: str) -> str:
    """Return a name without one prefix or suffix, or the same name."""
    name = _PATH.sub("", name)
    if host := _HOST.match(name):
        return name[host.end() :]
    if bedrock := _BEDROCK.match(name):
        rest = name[bedrock.end() :]
        # Bedrock omits the family of a model if it equals the name of the publisher, as in `deepseek.r1-v1:0`.
        return f"deepseek-{rest}" if bedrock[1] == "deepseek" and not rest.startswith("deepseek") else rest
    for suffix in _SUFFIXES:
        name = suffix.sub("", name)
    if name.startswith("claude-"):
        name = _CLAUDE_VERSION_FIRST.sub(r"claude-\2-\1", _DOT.sub("-", name))
        return _CLAUDE_REVISION.sub("", name)
    if name.startswith("gpt-35-"):
        return name.replace("gpt-35-", "gpt-3.5-", 1)
    return _LLAMA.sub(lambda found: f"llama-{found[1]}" + (f".{found[2]}" if found[2] else ""), name)
