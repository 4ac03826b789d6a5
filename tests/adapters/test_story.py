"""Every adapter holds a long conversation with a provider that keeps the published rules, and in which much goes wrong."""

from pathlib import Path

import pytest

from adapters.callers import CALLERS
from adapters.story import Caller, Story


@pytest.mark.parametrize("kind", CALLERS, ids=lambda kind: kind.__name__)
async def test_two_hundred_turns(kind: type[Caller], tmp_path: Path) -> None:
    """Messages are stored once and in order, calls have their results, and each prompt extends the last one."""
    await Story(kind, kind.__name__, str(tmp_path / "memolog.db")).tell(200)
