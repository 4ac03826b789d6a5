"""What other systems keep, read into our values: one small module a format, found by looking at the content."""

from memolog.transfer.conversation import Conversation
from memolog.transfer.detect import FORMATS, detect, read_source

__all__ = ["FORMATS", "Conversation", "detect", "read_source"]
