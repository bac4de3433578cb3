"""Numba's settings are the user's, not those of a file in the working directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
from unskew.engine.numba_import import import_njit
import_njit()
from numba.core import config
config.reload_config()  # as every compilation does
print(repr(config.CACHE_DIR))
"""


def test_a_stranger_cannot_name_the_folder_of_numbas_pickles(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: pickles\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path}\n{_SCRIPT}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "''"
