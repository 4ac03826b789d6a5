"""Read conversations that other systems store; the format of a file is detected from its content."""

from memolog.transfer.conversation import Conversation
from memolog.transfer.detect import FORMATS, detect, read_source

__all__ = ["FORMATS", "Conversation", "detect", "read_source"]
