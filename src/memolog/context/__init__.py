"""Build what a model is shown, byte for byte the same from one request to the next, as pure functions."""

from memolog.context.build import build
from memolog.context.escape import escape, one_line
from memolog.context.pairs import closed_cuts, is_compacted, mend
from memolog.context.render import render_group
from memolog.context.value import Block, Context, ContextMessage, Counts
from memolog.context.view import GroupView, OtherThread, View
from memolog.context.working_memory import working_memory_text

__all__ = [
    "Block",
    "Context",
    "ContextMessage",
    "Counts",
    "GroupView",
    "OtherThread",
    "View",
    "build",
    "closed_cuts",
    "escape",
    "is_compacted",
    "mend",
    "one_line",
    "render_group",
    "working_memory_text",
]
