"""Many columns, such as an embedding -> a few principal components."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unskew.bias.features import FeatureColumn, expand_features, is_numeric, read_numbers
from unskew.errors import DataError, first_few
from unskew.records import Floats

if TYPE_CHECKING:
    import pandas as pd

_NUMBERED = re.compile(r"(.*?)_?\d+")
# So many images show the principal components as well as all of them.
_ENOUGH_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class ComponentMap:
    """φ(z) = (x − centre)·rotation: the leading principal components.

    Columns that are numbered alike (embedding_0, embedding_1, …) are scaled by one number, so that
    the largest of them has standard deviation 1; any other column by its own. The first component
    has standard deviation 1, those after it less: a ridge holds them down more.

    Attributes
    ----------
    columns : what is read.
    centre : (D,) subtracted.
    rotation : (D, d)
    """

    columns: tuple[FeatureColumn, ...]
    centre: Floats = field(repr=False)
    rotation: Floats = field(repr=False)

    def read(self, frame: pd.DataFrame) -> Floats:
        """(n, d) φ(z_i)."""
        names = [column.name for column in self.columns]
        return (read_matrix(frame, names) - self.centre) @ self.rotation

    @property
    def names_text(self) -> str:
        """What is read, for a sentence."""
        names = first_few([column.name for column in self.columns])
        return f"{self.rotation.shape[1]} principal components of {names}"

    @property
    def labels(self) -> tuple[str, ...]:
        """What each of the d numbers is."""
        return tuple(f"component {at + 1}" for at in range(self.rotation.shape[1]))


def read_matrix(frame: pd.DataFrame, names: Sequence[str]) -> Floats:
    """(n, D) finite numbers of columns, all of which hold numbers."""
    wrong = [name for name in names if not is_numeric(frame[name])]
    if wrong:
        raise DataError(
            f"{first_few(wrong)} holds no numbers, and principal components are made of numbers. "
            "Leave it out.",
            columns=wrong,
        )
    matrix_nd = frame[list(names)].to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(matrix_nd).all():
        for name in names:
            read_numbers(frame[name], name)  # says which, and how many are missing
    return matrix_nd


def block_sizes(names: Sequence[str], deviation_d: Floats) -> Floats:
    """(D,) the largest standard deviation among the columns that are numbered alike."""
    largest: dict[str, float] = {}
    stems = []
    for name, deviation in zip(names, deviation_d, strict=True):
        match = _NUMBERED.fullmatch(name)
        stems.append(name if match is None else f"{match[1]}_#")
        largest[stems[-1]] = max(largest.get(stems[-1], 0.0), float(deviation))
    return np.array([largest[stem] or 1.0 for stem in stems])


def learn_components(
    frame: pd.DataFrame, features: Sequence[str], n_components: int, seed: int = 0
) -> ComponentMap:
    """Find the ``n_components`` leading principal components of numeric columns."""
    names = expand_features(frame, features)
    if len(frame) > _ENOUGH_ROWS:
        rng = np.random.default_rng(seed)
        frame = frame.iloc[np.sort(rng.choice(len(frame), _ENOUGH_ROWS, replace=False))]
    x_nd = read_matrix(frame, names)
    centre_d, deviation_d = x_nd.mean(axis=0), x_nd.std(axis=0)
    size_d = block_sizes(names, deviation_d)
    x_nd = (x_nd - centre_d) / size_d
    value_d, vector_dd = np.linalg.eigh(x_nd.T @ x_nd / max(len(x_nd), 1))
    order = np.argsort(value_d)[::-1][:n_components]
    order = order[value_d[order] > 1e-10 * max(float(value_d.max()), 1e-300)]
    if not order.size or not value_d.max() > 0:
        raise DataError(
            f"every column that the bias model reads is constant: {first_few(names)}.",
            columns=names,
        )
    vector_dd = vector_dd[:, order]
    # The sign of a component is arbitrary; this one does not depend on the machine.
    sign = np.sign(vector_dd[np.abs(vector_dd).argmax(axis=0), np.arange(order.size)])
    rotation_dq = vector_dd * sign / np.sqrt(value_d[order[0]]) / size_d[:, None]
    return ComponentMap(tuple(FeatureColumn(name) for name in names), centre_d, rotation_dq)
