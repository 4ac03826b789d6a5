"""Writes the pages of the documentation that follow from the code.

Run by `make docs`; a test fails when a page differs from what this would write.
"""

from pathlib import Path

from memolog.config import settings

__all__ = ["PAGES", "configuration_page"]


def configuration_page() -> str:
    """Return the configuration reference."""
    lines = [
        "# Configuration",
        "",
        "Made from the code by `make docs`; do not edit.",
        "",
        "Settings come from arguments, then the environment, then a TOML file, then the defaults. A name with a dot is a field of a",
        "section: `Config(observation=ObservationConfig(deadline=10))`, or `[observation]` in TOML. Unknown names, wrong",
        "types and values that contradict each other are refused, all at once, with what to do.",
        "",
        "| setting | default | takes | meaning | environment |",
        "| --- | --- | --- | --- | --- |",
    ]
    for setting in settings():
        default = "none" if setting.default is None else f"`{setting.default}`"
        accepts = setting.kind.accepts.replace("|", "\\|")
        cells = (f"`{setting.name}`", default, accepts, setting.meaning, f"`{setting.environment}`")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


PAGES = {"configuration.md": configuration_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (Path(__file__).parent / name).write_text(page(), encoding="utf-8")
