"""Dask: the errors without a cluster here; `make test-cluster` has real ones (tests/cluster)."""

from __future__ import annotations

import importlib.util
import time

import pytest

from unskew.engine.block_engines import open_engine
from unskew.errors import ConfigError

HAS_DASK = importlib.util.find_spec("distributed") is not None


@pytest.mark.skipif(HAS_DASK, reason="Dask is installed")
def test_without_dask_the_error_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r"unskew\[dask\]") as raised:
        open_engine("dask")
    assert raised.value.facts["extra"] == "dask"


@pytest.mark.skipif(not HAS_DASK, reason="Dask is not installed")
@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there_is_named_within_ten_seconds() -> None:
    begin = time.monotonic()
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9") as raised:
        open_engine("tcp://127.0.0.1:9")
    assert time.monotonic() - begin < 10
    assert raised.value.facts["option"] == "address"
