"""What other systems keep, read into our values: one small module a format, found by looking at the content."""

from memolog.transfer.detect import FORMATS, detect, read_source
from memolog.transfer.values import Conversation

__all__ = ["FORMATS", "Conversation", "detect", "read_source"]
