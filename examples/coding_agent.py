"""The hooks of a coding agent, played without an agent. The second of two sessions begins with the memory of the first.

    python examples/coding_agent.py

`memolog install codex` writes the same command into the settings files of the agent. This example plays the agent: it runs the
command once for each event, with JSON on standard input.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HOOK = [sys.executable, "-P", "-m", "memolog.apps.hook"]


def tell(db: str, event: dict[str, object]) -> str:
    """Run a hook with one event, and return its output."""
    command = [*HOOK, "codex", "--db", db, "--resource", "shop"]
    done = subprocess.run(command, input=json.dumps(event), capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


def play(db: str) -> str:
    """Play one session and the start of the next one. Return the memory that the next session gets."""
    said = [
        ("Which hash do we use for passwords?", "Argon2id, as you decided in March."),
        (
            "Good. The staging password is <private>swordfish</private>. We deploy on Fridays only.",
            "Fridays only, noted.",
        ),
    ]
    for turn, (prompt, answer) in enumerate(said):
        common: dict[str, object] = {"session_id": "monday", "turn_id": str(turn)}
        tell(db, {**common, "hook_event_name": "UserPromptSubmit", "prompt": prompt})
        tell(db, {**common, "hook_event_name": "Stop", "last_assistant_message": answer})
    tell(db, {"session_id": "monday", "hook_event_name": "SessionEnd", "reason": "other"})
    # The end of the session has already started a sweep in the background. Wait until the events are stored.
    for _ in range(100):
        subprocess.run([*HOOK, "sweep", "--db", db], check=True)  # noqa: S603
        answer = tell(db, {"session_id": "tuesday", "hook_event_name": "SessionStart", "source": "startup"})
        if "Fridays" in answer:
            return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"])
    raise SystemExit(f"nothing was stored; see {db}.hooks/errors.log")


def main() -> None:
    """Run the example in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="memolog-agent-", ignore_cleanup_errors=True) as folder:
        told = play(str(Path(folder) / "memolog.db"))
    print(told)
    print("\nprivate text is in it:", "swordfish" in told)


if __name__ == "__main__":
    main()
