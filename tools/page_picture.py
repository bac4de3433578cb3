"""The picture of the page in README.md.

`unskew demo`, then `python tools/page_picture.py unskew-demo/results/report.html`. It takes
playwright and a Chromium (`--chromium`, default /usr/bin/chromium).
"""

from __future__ import annotations

import argparse
from pathlib import Path

OUT = Path(__file__).parents[1] / "docs" / "pictures" / "page.png"


def main() -> None:
    """Take the picture of the first screen, in light colours."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=options.chromium)
        page = browser.new_page(viewport={"width": 1120, "height": 800}, color_scheme="light")
        page.goto(options.page.resolve().as_uri())
        page.screenshot(path=OUT)
        browser.close()


if __name__ == "__main__":
    main()
