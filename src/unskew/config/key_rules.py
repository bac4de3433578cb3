"""Rules of single keys: types of values, what sections have in common, and keys of [learn] that do
not go with its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo

from unskew.config.problems import Problem
from unskew.errors import ConfigError
from unskew.sources.roles import read_rule

if TYPE_CHECKING:
    from unskew.config.learn_section import LearnSection


class Section(BaseModel):
    """Base of all sections: unknown keys and values of another type are errors; frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    def settings(self) -> dict[str, Any]:
        """Convert to plain values that TOML can hold; keys without a value are left out."""
        return self.model_dump(exclude_none=True)


def setting(takes: str, meaning: str, default: Any = None, **limits: Any) -> Any:
    """Define a key: what it takes, in the words that follow "expected", and what it is for."""
    return Field(default, title=takes, description=meaning, **limits)


def _check_file_name_rule(rule: Any, key: ValidationInfo) -> Any:
    """Check a regular expression on the file name, if the rule is one."""
    try:
        read_rule(str(key.field_name), rule)
    except ConfigError as error:
        raise ValueError(str(error).rstrip(".")) from None
    return rule


def _check_split_rule(rule: Any, key: ValidationInfo) -> Any:
    is_file = isinstance(rule, dict) and set(rule) == {"file"}
    return rule if is_file else _check_file_name_rule(rule, key)


Text = Annotated[str, StringConstraints(min_length=1)]
Whole = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# Parts of 1: with both ends, without 1, without 0, and with neither.
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
BelowOne = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Portion = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Inside = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
# A column, or what the parentheses of a regular expression match in the file name (on = "path": in
# the path within the source).
ColumnRule = Annotated[Text | dict[Text, Text], AfterValidator(_check_file_name_rule)]
# The same, or a table of splits.
SplitRule = Annotated[Text | dict[Text, Text], AfterValidator(_check_split_rule)]


_OF_PIXELS = (
    *("size", "resize", "memory", "normalization", "mean", "std"),
    *("augment", "crop", "smallest_crop", "pad", "flip", "jitter", "cutout"),
)
_OF_EPOCHS = (
    *("epochs", "batch", "weighting", "patience", "devices", "precision"),
    *("optimizer", "learning_rate", "schedule", "warmup", "milestones", "momentum"),
    *("weight_decay", "label_smoothing", "head_share", "backbone_rate", "update_batch_norm"),
    *("probe_start", "frozen_share", "fix_batch_norm"),
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
    from unskew.config.learn_section import LearnSection

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
