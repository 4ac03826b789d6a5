"""One model has one name, however its provider, a gateway or a response spells it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memolog.core.model_names import canonical_model, context_window

SAME = {
    "gpt-5": "openai:gpt-5 openai-responses:gpt-5 openai-chat:gpt-5 gpt-5-2025-08-07 azure:gpt-5 gateway/openai:gpt-5 GPT-5",
    "gpt-5-mini": "gpt-5-mini-2025-08-07 openrouter:openai/gpt-5-mini",
    "gpt-4o": "gpt-4o-2024-08-06 gpt-4o-2024-11-20 azure/gpt-4o",
    "gpt-4": "gpt-4-0613 openai:gpt-4",
    "gpt-3.5-turbo": "gpt-3.5-turbo-0125 azure/gpt-35-turbo",
    "gpt-oss-120b": "openai.gpt-oss-120b-1:0 openai/gpt-oss-120b",
    "claude-sonnet-4": "claude-sonnet-4-20250514 claude-sonnet-4-0 claude-sonnet-4@20250514",
    "claude-sonnet-4-5": (
        "claude-sonnet-4-5-20250929 anthropic:claude-sonnet-4-5 claude-sonnet-4-5-latest claude-sonnet-4-5@20250929 "
        "anthropic.claude-sonnet-4-5-20250929-v1:0 bedrock:eu.anthropic.claude-sonnet-4-5-20250929-v1:0 "
        "openrouter:anthropic/claude-sonnet-4.5 anthropic/claude-4.5-sonnet-20250929 vertex_ai/claude-sonnet-4-5@20250929 "
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    ),
    "claude-sonnet-3-5": (
        "claude-3-5-sonnet-latest claude-3.5-sonnet claude-3-5-sonnet-v2@20241022 us.anthropic.claude-3-5-sonnet-20241022-v2:0"
    ),
    "gemini-2.0-flash": "gemini-2.0-flash-001 google-gla:gemini-2.0-flash publishers/google/models/gemini-2.0-flash-001",
    "gemini-2.5-flash-preview": "gemini-2.5-flash-preview-05-20 gemini-2.5-flash-preview-09-2025",
    "mistral-large": "mistral:mistral-large-latest mistral-large-2411 mistral.mistral-large-2407-v1:0",
    "llama-3.1-70b-instruct": (
        "meta.llama3-1-70b-instruct-v1:0 meta-llama/Llama-3.1-70B-Instruct accounts/fireworks/models/llama-v3p1-70b-instruct"
    ),
    "llama-3.1:8b": "ollama:llama3.1:8b llama3.1:8b",
    "deepseek-r1": "deepseek.r1-v1:0 deepseek/deepseek-r1:free deepseek-r1-0528",
    "grok-4": "xai:grok-4-0709 x-ai/grok-4",
}

DIFFERENT = [
    "gpt-5 gpt-5-mini gpt-5-nano gpt-5.1 gpt-5-chat-latest gpt-4o gpt-4o-mini gpt-4 gpt-4.1 gpt-4-turbo o1 o1-mini o3",
    "claude-sonnet-4 claude-sonnet-4-5 claude-opus-4 claude-opus-4-1 claude-3-5-sonnet claude-3-7-sonnet claude-3-5-haiku",
    "gemini-2.5-pro gemini-2.5-flash gemini-2.5-flash-lite gemini-2.0-flash",
    "llama3.1:8b llama3.1:70b llama3.2:3b llama3:8b",
    "deepseek-v3 deepseek-v3.1 deepseek-r1 deepseek-chat",
    "ft:gpt-4o-mini-2024-07-18:acme::one ft:gpt-4o-mini-2024-07-18:acme::two gpt-4o-mini",
    "mistral:7b mistral-large-latest mistral-small-latest ministral-8b-latest",
    "my-deployment another-deployment",
]


@pytest.mark.parametrize("name", SAME)
def test_all_spellings_of_a_model_are_one_name(name: str) -> None:
    """Hosts, dates, revisions and aliases do not make another model."""
    assert {spelling: canonical_model(spelling) for spelling in [name, *SAME[name].split()]} == dict.fromkeys(
        [name, *SAME[name].split()], name
    )


@pytest.mark.parametrize("names", DIFFERENT)
def test_sizes_and_versions_are_different_models(names: str) -> None:
    """What answers differently keeps a name of its own."""
    several = names.split()
    assert len({canonical_model(name) for name in several}) == len(several)


@given(st.one_of(st.text(), st.from_regex(r"[a-z0-9.:/@-]{0,40}", fullmatch=True)))
def test_a_canonical_name_stays_as_it_is(name: str) -> None:
    """Any text has a canonical name, and that name is its own."""
    assert canonical_model(canonical_model(name)) == canonical_model(name)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("openai-responses:gpt-5", 272_000),
        ("gpt-5.1-codex", 272_000),
        ("gpt-5-chat-latest", 128_000),
        ("gpt-4.1-mini-2025-04-14", 1_047_576),
        ("gpt-4o-2024-08-06", 128_000),
        ("ft:gpt-4o-mini-2024-07-18:acme::id", 128_000),
        ("gpt-4-0613", 8_192),
        ("o3-mini", 200_000),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("claude-3-5-haiku-latest", 200_000),
        ("claude-opus-4-6", 1_000_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("google-gla:gemini-2.5-flash-lite", 1_048_576),
        ("gemini-1.5-pro-002", 2_097_152),
        ("mistral-large-latest", 262_144),
        ("meta.llama3-1-70b-instruct-v1:0", 131_072),
        ("llama3:8b", 8_192),
        ("deepseek-chat", 131_072),
        ("qwen/qwen3-coder", 262_144),
        ("grok-4-fast-reasoning", 2_000_000),
        ("gpt-4.5-preview", None),
        ("claude-opus-9", None),
        ("gemini-2.5-flash-preview-tts", None),
        ("my-deployment", None),
        ("", None),
    ],
)
def test_the_window_of_a_model_is_known_by_any_of_its_names(name: str, tokens: int | None) -> None:
    """A model that is in no family of the table has no known window."""
    assert context_window(name) == tokens
