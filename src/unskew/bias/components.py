"""Many columns, such as an embedding -> a few principal components."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.bias.features import FeatureColumn, expand_features, is_numeric, read_numbers
from unskew.errors import DataError, first_few
from unskew.records import Floats

if TYPE_CHECKING:
    import pandas as pd

_NUMBERED = re.compile(r"(.*?)_?\d+")
# So many images show the principal components as well as all of them.
_ENOUGH_ROWS = 20_000
# Root of the mean square of the correlations, below which columns are components already.
_UNCORRELATED = 0.05
_CONSTANT = 1e-20


@dataclass(frozen=True, eq=False)
class ComponentMap:
    """φ(z) = (x − centre)·rotation: the leading principal components.

    Columns that are numbered alike (embedding_0, embedding_1, …) are scaled by one number, so that
    the largest of them has standard deviation 1; any other column by its own. The first component
    has standard deviation 1, those after it less: a ridge holds them down more. Columns that are
    nearly uncorrelated are components already, of more images than these, perhaps: they are taken
    as they are, those that vary most first.

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


def block_sizes(
    names: Sequence[str], deviation_d: Floats, of_block: Callable[[Floats], Any] = np.max
) -> Floats:
    """(D,) the largest (or mean) standard deviation of the columns that are numbered alike."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    stems = [name if m is None else f"{m[1]}_#" for name, m in zip(names, matches, strict=True)]
    _, block_d = np.unique(stems, return_inverse=True)
    size_b = [float(of_block(deviation_d[block_d == b])) or 1.0 for b in range(block_d.max() + 1)]
    return np.array(size_b)[block_d]


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
    rotation_dq = _rotation((x_nd - centre_d) / size_d, n_components)
    if not rotation_dq.shape[1]:
        raise DataError(
            f"every column that the bias model reads is constant: {first_few(names)}.",
            columns=names,
        )
    rotation_dq = rotation_dq / size_d[:, None]
    return ComponentMap(tuple(FeatureColumn(name) for name in names), centre_d, rotation_dq)


def _rotation(x_nd: Floats, n_components: int) -> Floats:
    """(D, d) that turns centred columns into components, the first of standard deviation 1."""
    covariance_dd = x_nd.T @ x_nd / max(len(x_nd), 1)
    variance_d = np.diag(covariance_dd)
    varies = np.flatnonzero(variance_d > _CONSTANT)
    if not varies.size:
        return np.zeros((x_nd.shape[1], 0))
    deviation_v = np.sqrt(variance_d[varies])
    correlation_vv = covariance_dd[np.ix_(varies, varies)] / np.outer(deviation_v, deviation_v)
    # Of independent columns the mean square of n images' correlations is 1/n.
    others = max(varies.size - 1, 1)
    square = (float(np.square(correlation_vv).mean()) * varies.size - 1.0) / others - 1 / len(x_nd)
    if square < _UNCORRELATED**2:
        value_d, vector_dd = variance_d, np.eye(variance_d.size)
    else:
        value_d, vector_dd = np.linalg.eigh(covariance_dd)
    order = np.argsort(-value_d, kind="stable")[:n_components]
    order = order[value_d[order] > 1e-10 * float(value_d.max())]
    vector_dq = vector_dd[:, order]
    # The sign of a component is arbitrary; this one does not depend on the machine.
    sign_q = np.sign(vector_dq[np.abs(vector_dq).argmax(axis=0), np.arange(order.size)])
    return np.asarray(vector_dq * sign_q / np.sqrt(value_d[order[0]]))
