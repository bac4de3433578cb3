"""Shares of a target that were estimated from a classifier's scores: the record, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, first_few

# A difference from black-box shift estimation with a smaller p-value is a warning.
AGREEMENT_LIMIT = 0.01
_FAMILIES = {
    "temperature": "one slope for all classes and an intercept for each",
    "vector": "a slope and an intercept for each class",
    "matrix": "the log-odds of each class linear in those of all classes",
}


@dataclass(frozen=True)
class LabelShift:
    """The shares of the classes in the target, estimated from the scores of a classifier.

    Attributes
    ----------
    classes : the C classes.
    share : (C,) estimated shares, sum 1.
    stderr : (C,) their standard errors: the target's images and the calibration.
    interval : (C,) profile-likelihood intervals, widened for the error of the calibration; above
        they reach at least to share + z stderr.
    level : of the intervals.
    calibration : "temperature", "vector" or "matrix", the family that was fitted.
    calibration_part : (C,) the part of each variance that is due to the calibration.
    condition : ratio of the largest to the smallest eigenvalue of the information: how much harder
        the worst-known mixture of classes is than the best-known.
    n_target, n_validation : numbers of images.
    black_box : (C,) the shares by black-box shift estimation, a check.
    agreement_p : p-value of the check that the images of each class look alike in target and
        validation.
    """

    classes: tuple[str, ...]
    share: tuple[float, ...]
    stderr: tuple[float, ...]
    interval: tuple[tuple[float, float], ...] = field(repr=False)
    level: float
    calibration: str
    calibration_part: tuple[float, ...] = field(repr=False)
    condition: float
    n_target: int
    n_validation: int
    black_box: tuple[float, ...] = field(repr=False)
    agreement_p: float

    def to_dict(self) -> dict[str, Any]:
        """Return values that TOML and JSON can hold."""
        return {name: _listed(value) for name, value in asdict(self).items()}

    @checked
    def describe(self, by: str) -> tuple[str, ...]:
        """Return how the shares were estimated, and what that assumes."""
        shares = first_few(
            [
                f"{name} {share:.3g} ± {stderr:.2g} ({low:.3g} to {high:.3g})"
                for name, share, stderr, (low, high) in zip(
                    self.classes, self.share, self.stderr, self.interval, strict=True
                )
            ],
            12,
        )
        return (
            f"Estimated: the shares of {by} ({len(self.classes)} classes) by maximum likelihood "
            f"from a classifier's scores of {self.n_target} unlabelled images of the target: "
            f"{shares}; in parentheses {100 * self.level:g}% profile-likelihood intervals. Their "
            "covariance enters every interval.",
            "Assumed: label shift. Within each class the target's images look like the labelled "
            f"ones on which the classifier was judged: p(image | {by}) is the same, only the "
            "shares differ.",
            f"The scores were calibrated on {self.n_validation} labelled images "
            f"({_FAMILIES[self.calibration]}), which makes up to "
            f"{max(self.calibration_part):.0%} of the variance of a share.",
            self._agreement(),
        )

    def _agreement(self) -> str:
        p = f"p = {self.agreement_p:.2g}"
        if self.agreement_p >= AGREEMENT_LIMIT:
            return f"Black-box shift estimation from the same scores does not disagree ({p})."
        at = max(range(len(self.share)), key=lambda c: abs(self.share[c] - self.black_box[c]))
        return (
            f"Black-box shift estimation disagrees ({p}); most for {self.classes[at]}, "
            f"{self.black_box[at]:.3g} instead of {self.share[at]:.3g}. Images of a class may look "
            "different in the target, or the scores cannot be calibrated. The difference was added "
            "to the standard errors."
        )


def read_label_shift(settings: Mapping[str, Any]) -> LabelShift:
    """Read what `LabelShift.to_dict` wrote."""
    names = [entry.name for entry in fields(LabelShift)]
    lacking = [name for name in names if name not in settings]
    if lacking:
        raise ConfigError(
            f"[target.predictions] as a run writes it has {', '.join(names)}; "
            f"{first_few(lacking)} is missing.",
            key=f"predictions.{lacking[0]}",
            allowed=names,
        )
    return LabelShift(**{name: _frozen(settings[name]) for name in names})


def _listed(value: Any) -> Any:
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list | tuple) else value
