"""Build the prompts of observers and reflectors, and parse their replies into drafts and faults.

Pure: no clock, store or model. The wording is in `texts/`; foreign text is escaped between our tags.
"""

from memolog.prompt.build import (
    ObserveInput,
    Prompt,
    ReflectInput,
    observer_batch_prompt,
    observer_prompt,
    reflector_prompt,
)
from memolog.prompt.drafts import Draft, HintsDraft, Parsed, ParsedReflection, ReflectedDraft
from memolog.prompt.faults import FATAL, Fault, FaultKind
from memolog.prompt.parse import failure, parse_batch, parse_observations
from memolog.prompt.redact import NO_REDACTION, REDACTION, Redactor, SecretPattern, secret_patterns
from memolog.prompt.reflection import parse_reflection
from memolog.prompt.transcript import Shown, Transcript, split, transcript
from memolog.prompt.wording import LEVELS, MODES, PROMPT_VERSION, VOICES, Voice

__all__ = [
    "FATAL",
    "LEVELS",
    "MODES",
    "NO_REDACTION",
    "PROMPT_VERSION",
    "REDACTION",
    "VOICES",
    "Draft",
    "Fault",
    "FaultKind",
    "HintsDraft",
    "ObserveInput",
    "Parsed",
    "ParsedReflection",
    "Prompt",
    "Redactor",
    "ReflectInput",
    "ReflectedDraft",
    "SecretPattern",
    "Shown",
    "Transcript",
    "Voice",
    "failure",
    "observer_batch_prompt",
    "observer_prompt",
    "parse_batch",
    "parse_observations",
    "parse_reflection",
    "reflector_prompt",
    "secret_patterns",
    "split",
    "transcript",
]
