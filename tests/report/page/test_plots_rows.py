"""Love plots."""

from __future__ import annotations

from report.page.samples import page_of


def test_love_plots_keep_fitted_and_unfitted_apart() -> None:
    page = page_of("five")
    fitted = page[
        page.index("<bdi>Fitted attributes") : page.index("<bdi>Attributes that were not fitted")
    ]
    unfitted = page[
        page.index("<bdi>Attributes that were not fitted") : page.index('id="distributions"')
    ]
    assert "label = roe deer" in fitted
    assert "temperature" not in fitted
    assert "temperature" in unfitted
    # The model read it, but there is nothing to compare it with: no distance from a target is
    # claimed.
    assert "brightness" not in fitted
    assert "brightness" in unfitted[unfitted.index("Fitted, with no target to compare with") :]
