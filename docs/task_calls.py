"""Extension for `mkdocs.yml`: shows the calls on tasks as callers see them. In the code, they are scripts with a decorator."""

from typing import Any

import griffe

__all__ = ["Scripts"]


class Scripts(griffe.Extension):
    """Replaces the return type `Script[T]` of a function by `T`, and marks the function as asynchronous."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Change one function."""
        if isinstance(func.returns, griffe.ExprSubscript) and str(func.returns.left) == "Script":
            func.returns = func.returns.slice
            func.labels.add("async")
