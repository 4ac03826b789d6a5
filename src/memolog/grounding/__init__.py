"""Check what a model wrote against its sources, and decide whose word each line is.

Pure: no clock, store or model. Lines are marked, lowered or dropped, never rewritten.
"""

from memolog.grounding.check import ungrounded
from memolog.grounding.documents import trusted_document
from memolog.grounding.evidence import Evidence, is_english, is_found, support
from memolog.grounding.folding import content_words, folded, squeezed
from memolog.grounding.identifiers import Kind, Mention, mentions
from memolog.grounding.judge import Judged, Policy, judge, judge_reflection
from memolog.grounding.loss import Said, is_bare_list, lost, lost_lines, unsaid, vague
from memolog.grounding.sources import source_text
from memolog.grounding.trust import lowest, speaks_for_user, trust_of, trusted_hints

__all__ = [
    "Evidence",
    "Judged",
    "Kind",
    "Mention",
    "Policy",
    "Said",
    "content_words",
    "folded",
    "is_bare_list",
    "is_english",
    "is_found",
    "judge",
    "judge_reflection",
    "lost",
    "lost_lines",
    "lowest",
    "mentions",
    "source_text",
    "speaks_for_user",
    "squeezed",
    "support",
    "trust_of",
    "trusted_document",
    "trusted_hints",
    "ungrounded",
    "unsaid",
    "vague",
]
