"""map.parquet: every image as a point, for tools that show images by what they are like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.records import Floats, Pool
from unskew.represent.projection import LARGEST_DIMENSION, fit_projection
from unskew.weigh.weights_table import join_weights

if TYPE_CHECKING:
    import pandas as pd

MAP = "map.parquet"
MAP_COLUMNS = ("id", "path", "x", "y", "source", "label", "weight")
# Components of so many images, evenly spaced, are those of all of them as far as an eye can tell.
_MOST_FITTED = 20_000
_BLOCK = 8192


def map_images(pool: Pool, weights: pd.DataFrame) -> pd.DataFrame | None:
    """Return `MAP_COLUMNS` of every image; None with fewer than two numeric features.

    x and y are the two principal components of all numeric features, each scaled to mean 0 and
    variance 1; what an image lacks is taken as the mean.
    """
    import pandas as pd

    frame = pool.frame
    names = [
        name
        for name in pool.attributes
        if pd.api.types.is_numeric_dtype(frame[name])
        and not pd.api.types.is_bool_dtype(frame[name])
    ]
    step = max(1, -(-len(frame) // _MOST_FITTED))
    fitted = frame[names].iloc[::step].to_numpy(np.float64, copy=True)
    fitted[~np.isfinite(fitted)] = np.nan
    known = np.isfinite(fitted).any(axis=0)
    fitted = fitted[:, known]
    mean_d, sd_d = np.nanmean(fitted, axis=0), np.nanstd(fitted, axis=0)
    varies = sd_d > 1e-12 * np.maximum(np.abs(mean_d), 1e-300)
    used = [name for name, is_known in zip(names, known, strict=True) if is_known]
    used = [name for name, is_used in zip(used, varies, strict=True) if is_used]
    if not 2 <= len(used) <= LARGEST_DIMENSION or len(fitted) < 3:
        return None
    mean_d, sd_d = mean_d[varies], sd_d[varies]

    def scaled(value_md: Floats) -> Floats:
        z_md = (value_md - mean_d) / sd_d
        return np.where(np.isfinite(z_md), z_md, 0.0)

    projection = fit_projection([scaled(fitted[:, varies])], 2)
    point_n2 = np.concatenate(
        [
            projection.project(scaled(frame[used].iloc[at : at + _BLOCK].to_numpy(np.float64)))
            for at in range(0, len(frame), _BLOCK)
        ]
    )
    table = join_weights(pool, weights).reindex(columns=list(MAP_COLUMNS))
    return table.assign(x=point_n2[:, 0], y=point_n2[:, 1], source=table["source"].astype(str))
