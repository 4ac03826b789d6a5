"""Three tools for models: query tasks, change tasks, search memory."""

from memolog.tools.definitions import FORMS, Form, definition, guidance
from memolog.tools.toolset import Toolset

__all__ = ["FORMS", "Form", "Toolset", "definition", "guidance"]
