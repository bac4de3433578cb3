"""Eight images with weights, for the tests of exports."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass

import numpy as np
import pandas as pd

from unskew import Pool, Target
from unskew.bias import Strata
from unskew.debiasing.pool_weights import weigh_splits
from unskew.errors import ImageError
from unskew.records.pool import Images
from unskew.weigh.weights_table import (
    COLUMNS,
    join_weights,
)


@dataclass
class Held(Images):
    """Images in memory: bytes, arrays, or None for one that has vanished."""

    held: list

    def __len__(self):
        return len(self.held)

    def read(self, row):
        if self.held[row] is None:
            raise ImageError("the file is gone")
        return self.held[row]

    def take(self, rows):
        return Held([self.held[row] for row in rows])


def picture(shade, format="JPEG", mode="RGB"):
    from PIL import Image

    file = io.BytesIO()
    Image.new(mode, (6, 4), shade if mode == "L" else (shade, 10, 20)).save(file, format=format)
    return file.getvalue()


def export_pool(splits=("train", "train", "validation", "test")):
    """Eight images: JPEG, PNG, arrays in colour and in grey, WebP, two labels, hostile names."""
    held = [
        *(
            picture(10),
            picture(20, "PNG"),
            np.full((4, 6, 3), 30, np.uint8),
            np.full((4, 6, 1), 40, np.uint8),
        ),
        *(picture(50, "WEBP"), picture(60), picture(70), picture(80, "TIFF")),
    ]
    ids = [
        "a/x.jpg",
        "a/x.png",
        '=HYPERLINK("evil")',
        "b/ü, \"'\n.jpg",
        "test/1.jpg",
        "train/2.jpg",
        "b/../c",
        "<script>",
    ]
    frame = pd.DataFrame(
        {
            "id": ids,
            "source": list("aabbabab"),
            "label": ["cat", "dog"] * 4,
            "path": [f"{value}.file" for value in ids],
            "split": np.repeat(splits, 2) if splits else None,
        }
    )
    return Pool(frame if splits else frame.drop(columns="split"), Held(held))


def weights_of(pool):
    split = weigh_splits(pool, Strata("label"), Target.margins({"label": {"cat": 0.8, "dog": 0.2}}))
    joined = join_weights(pool, split.frame())
    return joined.reindex(columns=list(COLUMNS))


def shard_members(path):
    with tarfile.open(path) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar.getmembers()]
