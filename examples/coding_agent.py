"""A coding agent's hooks at work, without an agent: two sessions in Codex's form, the second begins with the memory of the first.

    python examples/coding_agent.py

`memolog install codex` writes the same command into the agent's own files. Here a host is played by hand: each event is one
process with JSON on standard input.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HOOK = [sys.executable, "-P", "-m", "memolog.apps.hook"]


def tell(db: str, event: dict[str, object]) -> str:
    """Tell a hook of one event; return what it answers."""
    command = [*HOOK, "codex", "--db", db, "--resource", "shop"]
    done = subprocess.run(command, input=json.dumps(event), capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


def play(db: str) -> str:
    """Play one session to its end, and the start of the next; return what the next is told."""
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
    # The end has woken a sweep of its own, which nobody waits for; an example does, for as long as it takes.
    for _ in range(100):
        subprocess.run([*HOOK, "sweep", "--db", db], check=True)  # noqa: S603
        answer = tell(db, {"session_id": "tuesday", "hook_event_name": "SessionStart", "source": "startup"})
        if "Fridays" in answer:
            return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"])
    raise SystemExit(f"nothing was stored; see {db}.hooks/errors.log")


def main() -> None:
    """Play it in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="memolog-agent-", ignore_cleanup_errors=True) as folder:
        told = play(str(Path(folder) / "memolog.db"))
    print(told)
    print("\nprivate text is in it:", "swordfish" in told)


if __name__ == "__main__":
    main()
