"""Which settings can change a result, and which cannot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# They say where computed numbers are kept, how fast and on what device a run goes, how many images
# may be unreadable, and by which columns a trained model is also judged: they change no result.
_WITHOUT_EFFECT = {
    ("represent", "cache"),
    ("engine", "jobs"),
    ("sources", "tolerance"),
    ("learn", "device"),
    ("learn", "by"),
}
# The sections that a forecast depends on, and those that a trained model depends on: [report] says
# what is shown of them.
FORECAST_SECTIONS = ("sources", "represent", "target", "bias", "solve", "engine")
MODEL_SECTIONS = (*FORECAST_SECTIONS, "learn")


def effective_settings(
    settings: Mapping[str, Any], sections: Collection[str] | None = None
) -> dict[str, Any]:
    """Keep the settings that can change a result, in their order; empty sections are dropped.

    Parameters
    ----------
    settings : {section: {key: value}}, as `unskew.config.run_config.resolved` returns them.
    sections : those that the result in question depends on; default: all.
    """
    effective = {
        name: {key: value for key, value in section.items() if (name, key) not in _WITHOUT_EFFECT}
        if isinstance(section, Mapping)
        else section
        for name, section in settings.items()
        if name != "folder" and (sections is None or name in sections)
    }
    return {name: section for name, section in effective.items() if section}
