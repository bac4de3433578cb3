"""The panels of the page."""

from __future__ import annotations

from dataclasses import replace

from report.page import samples
from unskew.report.page.panels import settings_text


def test_settings_are_toml() -> None:
    import tomllib

    summary = samples.small_summary()
    assert tomllib.loads(settings_text(summary)) == summary.provenance["settings"]
    odd = {"a b": {'"quoted"': [1, 2.5, True, "x\ny"], "list": [{"k": "v"}]}, "none": None}
    read = tomllib.loads(settings_text(replace(summary, provenance={"settings": odd})))
    assert read == {"a b": {'"quoted"': [1, 2.5, True, "x\ny"], "list": [{"k": "v"}]}}
    assert (
        settings_text(replace(summary, provenance={"settings": "[bias]\nfamily = 'strata'"}))
        == "[bias]\nfamily = 'strata'"
    )
    assert settings_text(replace(summary, provenance={})) == ""
