"""Data for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitored_run import write_monitored_run
from run_data import write_table_run, write_vendors


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two sources without images; the configuration."""
    return write_table_run(tmp_path)


@pytest.fixture(scope="session")
def vendors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of class folders, for reading only."""
    return write_vendors(tmp_path_factory.mktemp("vendors"))


@pytest.fixture(scope="session")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in ``out``, and days of new images, for reading only."""
    return write_monitored_run(tmp_path_factory.mktemp("monitor"))
