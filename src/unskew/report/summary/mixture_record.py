"""In which ratio the sources are mixed: a part of `report.json`."""

from __future__ import annotations

from dataclasses import dataclass

Number = float | None


@dataclass(frozen=True)
class MixtureRow:
    """One source, or the images of one class in it: its share of the pool, and of the weights."""

    source: str
    label: str | None
    pool: Number
    weighted: Number


@dataclass(frozen=True)
class MixturePanel:
    """The ratio in which the sources are pooled, and the one that the weights imply.

    sources : one row for each source.
    classes : one row for each class of each source, those that change most first.
    bias_left : (what, total variation): how far the target's shares are missed where a training
        uses one number per source, ½ Σ_y |Σ_k W_k n_ky/n_k − Σ_{i in y} π_i|, for what is known of
        the target, the worst first; the last one is for the images themselves, a bound for
        everything.
    """

    sources: tuple[MixtureRow, ...]
    classes: tuple[MixtureRow, ...]
    bias_left: tuple[tuple[str, Number], ...]
