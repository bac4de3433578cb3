"""Settings that all tests share."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from address_buckets import bucket, memory  # noqa: F401  (fixtures)

# Its asserts show what differs, as those of the tests do.
pytest.register_assert_rewrite("raising")

# Shared machines are slow at random moments, and the first call of a compiled kernel is: a deadline
# would fail for no fault of ours. Derandomised, so that a test passes or fails by the code alone.
# UNSKEW_HYPOTHESIS=random, with --hypothesis-seed, looks further, and at more examples.
settings.register_profile("unskew", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("UNSKEW_HYPOTHESIS", "unskew"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay until the end: nobody looks for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
