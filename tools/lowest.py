"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

    python tools/lowest.py > constraints-lowest.txt

`make test-lowest` installs them into an environment of their own and runs the tests there.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest_versions(extras: tuple[str, ...] = ()) -> list[str]:
    """List ``name==version`` of every dependency (and of the extras) at its lower bound."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    bounds = (re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in lines)
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    print("\n".join(lowest_versions()))
