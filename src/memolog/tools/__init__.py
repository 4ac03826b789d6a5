"""Three tools for the model: look at tasks, change them, search memory.

Knows how a model's call becomes an answer, and how the tools are described to models. Decides nothing about memory itself.
"""

from memolog.tools.definitions import FORMS, Form, definition, guidance
from memolog.tools.toolset import Toolset

__all__ = ["FORMS", "Form", "Toolset", "definition", "guidance"]
