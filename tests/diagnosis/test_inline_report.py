"""`Weights.report`: the page of `write_report`, in a frame that can do nothing to the notebook."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas as pd
import pytest

import unskew


def test_the_page_is_shown_inline() -> None:
    frame = pd.DataFrame(
        {"source": np.repeat(["a", "b"], 20), "label": np.tile(["x", "y", "x", "x"], 10)}
    )
    target = unskew.Target.uniform("label")
    weights = unskew.debias(unskew.Pool.from_frame(frame), unskew.bias.Strata("label"), target)
    page = weights.report(title="<b>mine")
    shown = page._repr_html_()
    assert re.match(r'<iframe sandbox="allow-scripts" ', shown)
    inner = re.search(r'srcdoc="([^"]*)"', shown)
    assert inner is not None
    assert html.unescape(inner[1]) == page.html
    assert "&lt;b&gt;mine" in page.html


def test_weights_of_numbers_need_the_pool() -> None:
    weights = unskew.debias_weights(np.ones((4, 2)), [0, 0, 1, 1])
    with pytest.raises(unskew.ConfigError, match="report"):
        weights.report()
