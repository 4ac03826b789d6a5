"""Pure decisions: state, configuration and time in, one decision with its reason out."""

from memolog.decide.backoff import back_off, breaker_is_open
from memolog.decide.decisions import (
    Activate,
    ActivateReflection,
    Buffer,
    Decision,
    Observe,
    Recover,
    Reflect,
    SpanOf,
    Trim,
    Wait,
)
from memolog.decide.rules import RULES, Rule, decide
from memolog.decide.spans import closed_ends
from memolog.decide.state import Entry, Flight, Ready, ReadyReflection, State, Tail, Weight

__all__ = [
    "RULES",
    "Activate",
    "ActivateReflection",
    "Buffer",
    "Decision",
    "Entry",
    "Flight",
    "Observe",
    "Ready",
    "ReadyReflection",
    "Recover",
    "Reflect",
    "Rule",
    "SpanOf",
    "State",
    "Tail",
    "Trim",
    "Wait",
    "Weight",
    "back_off",
    "breaker_is_open",
    "closed_ends",
    "decide",
]
