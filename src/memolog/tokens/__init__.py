"""Count tokens of texts, messages and files, and cut texts safely. Counting never raises."""

from memolog.tokens.calibration import apply, learn
from memolog.tokens.counter import HeuristicCounter, SplintrCounter, TokenCounter
from memolog.tokens.estimate import over_estimate
from memolog.tokens.files import count_file
from memolog.tokens.graphemes import cut, cut_end, cut_middle, cut_tokens, is_boundary
from memolog.tokens.images import image_size, image_tokens
from memolog.tokens.messages import count_message, count_parts, count_text, count_tool_schemas
from memolog.tokens.sharing import share

__all__ = [
    "HeuristicCounter",
    "SplintrCounter",
    "TokenCounter",
    "apply",
    "count_file",
    "count_message",
    "count_parts",
    "count_text",
    "count_tool_schemas",
    "cut",
    "cut_end",
    "cut_middle",
    "cut_tokens",
    "image_size",
    "image_tokens",
    "is_boundary",
    "learn",
    "over_estimate",
    "share",
]
