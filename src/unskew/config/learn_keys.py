"""Keys of ``[learn]`` that the model it names does not read: a problem, not silently ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unskew.config.problems import Problem
from unskew.config.sections import LearnSection

_OF_PIXELS = ("size", "resize")
_OF_EPOCHS = (
    "epochs",
    "batch",
    "learning_rate",
    "weighting",
    "cutout",
    "patience",
    "devices",
    "precision",
)
_OF_PROBE = ("ridge",)
_GOES_WITH = {
    **dict.fromkeys(_OF_PIXELS, "a network on pixels; a probe is trained on features"),
    **dict.fromkeys(_OF_EPOCHS, "a network; a probe is fitted exactly, on features"),
    **dict.fromkeys(_OF_PROBE, "a probe; a network has none"),
}


def unread_keys(learn: Mapping[str, Any]) -> dict[str, str]:
    """Find the keys that have no effect on what is trained: {key: what it goes with}.

    Keys with their default value are ignored, because resolved settings contain every default.
    """
    model = learn.get("model")
    preset = learn.get("preset", LearnSection.model_fields["preset"].default)
    keys: tuple[str, ...]
    if preset != "probe":
        keys = _OF_PROBE if model != "probe" else ()
    elif model in (None, "probe"):
        keys = (*_OF_PIXELS, *_OF_EPOCHS)
    else:
        # A network of the user's own, on features.
        keys = (*_OF_PIXELS, *_OF_PROBE)
    return {
        key: _GOES_WITH[key]
        for key in keys
        if key in learn and learn[key] != LearnSection.model_fields[key].default
    }


def learn_problems(learn: LearnSection) -> list[Problem]:
    """List the keys of a file that go with another model than the one it names."""
    return [
        Problem(("learn", key), f"goes with {what}: leave it out, or name another preset.")
        for key, what in unread_keys(learn.settings()).items()
    ]
