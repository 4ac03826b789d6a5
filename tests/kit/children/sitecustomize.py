"""Give programs that tests start the same long limits as the tests have. Python imports this module when it starts."""

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PATIENCE = 120.0


def _patient_turns(deadline: Any) -> None:
    begin = deadline.Budget.__init__

    def limited(self: object, seconds: float, *, patience: float = 0.0) -> None:
        begin(self, max(seconds, PATIENCE), patience=patience)

    deadline.Budget.__init__ = limited


def _patient_runs(runner: Any) -> None:
    runner._GIVE_BACK_SECONDS = PATIENCE


def _patient_sessions(session_start: Any) -> None:
    session_start._MAX_SECONDS = PATIENCE


_CHANGES: dict[str, Callable[[Any], None]] = {
    "memolog.core.deadline": _patient_turns,
    "memolog.log.runner": _patient_runs,
    "memolog.apps.hooks.session_start": _patient_sessions,
}


class _Patient:
    """Finds these modules like everybody else, and changes them when they are loaded."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        change = _CHANGES.get(name)
        if change is None:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not cls)
        spec = next(filter(None, others), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            change(module)

        spec.loader.exec_module = load_and_change
        return spec


sys.meta_path.insert(0, _Patient)
