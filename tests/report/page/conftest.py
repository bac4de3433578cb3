"""One browser for all tests of the page."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

# Chromium of its own asks for updates and reports; a page must be seen to ask for nothing.
_QUIET = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-gpu",
    "--no-first-run",
)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a window; where there is none, these tests are skipped."""
    found = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if found is None:
        pytest.skip(
            "no chromium here: install it with `make chromium` (as root, Debian) to test the page "
            "in a real browser"
        )
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with warnings.catch_warnings():
        # Of Playwright's own event loop, not of ours.
        warnings.simplefilter("ignore")
        os.environ.setdefault("NODE_OPTIONS", "--no-deprecation")
        playwright = sync_api.sync_playwright().start()
        launched = playwright.chromium.launch(executable_path=found, args=list(_QUIET))
        try:
            yield launched
        finally:
            launched.close()
            playwright.stop()
