"""Write docs/reference.md: every option of every command, from its one declaration in `identifiable.options`.

python scripts/reference.py            # write the page
python scripts/reference.py --check    # exit 1 if the page is not what the declarations say
"""

from __future__ import annotations

import sys
from pathlib import Path

from identifiable.cli.commands import COMMANDS
from identifiable.options import Declared, Options, declared

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
BAR = "\\|"  # in a cell of a table
HEAD = (
    "# Options of every command\n\n"
    "Made by `python scripts/reference.py` from the declarations in `identifiable.options`. Names in the first column are keywords "
    "of the Python call; those without a flag exist in Python only. `--json`, `--report`, `--quiet` and `--fail-if` are described "
    "in [commands.md](commands.md).\n"
)


def page() -> str:
    """The whole page."""
    sections = [_section(name, kind) for found in COMMANDS for name, kind in getattr(found, "OPTIONS", {}).items()]
    return "\n".join([HEAD, *sections])


def _section(name: str, kind: type[Options]) -> str:
    lines = [
        f"## {name}",
        "",
        (kind.__doc__ or "").strip(),
        "",
        "| keyword | flag | default | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_row, declared(kind))]) + "\n"


def _row(option: Declared) -> str:
    flag = "" if option.flag is None else f"`{option.flag}`"
    default = option.option.shown or f"`{option.default!r}`"
    listed = f": {', '.join(option.choices)}" if option.choices else ""
    cells = [f"`{option.name}`", flag, default, f"{option.option.help}{listed}"]
    return "| " + " | ".join(cell.replace("|", BAR) for cell in cells) + " |"


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
