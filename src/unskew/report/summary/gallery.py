"""Which images are worth looking at, and their thumbnails."""

from __future__ import annotations

import base64
import io
import logging
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from unskew.records import Floats, Ints, Pool
from unskew.records.levels import holds_lists, text_levels
from unskew.report.summary.plain import plain_text
from unskew.report.summary.privacy import count_text
from unskew.report.summary.record import Gallery, Thumbnail
from unskew.report.summary.source_table import Copies
from unskew.report.summary.weighted_pool import WeightedPool

if TYPE_CHECKING:
    import pandas as pd
    from PIL.Image import Image

_SIDE = 96
_QUALITY = 70
# Larger images are not decoded for a thumbnail; the header tells their size before any pixel is
# read.
_MOST_PIXELS = 100_000_000
_MOST_BYTES = 200_000_000
# What databases of images hold, as in `unskew.represent.decode`: other formats would start other
# programs (EPS starts Ghostscript).
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "DIB", "QOI")

logger = logging.getLogger(__name__)


def make_thumbnail(pool: Pool, row: int) -> str | None:
    """Return the image of a row as a data URI of a JPEG of at most 96 × 96."""
    if pool.images is None:
        return None
    try:
        with warnings.catch_warnings():
            # No warning about an odd file here: its first reader gave one.
            warnings.simplefilter("ignore")
            return _encoded(_opened(pool.images.read(row)))
    except Exception as error:  # a decoder raises whatever a broken file makes it raise
        logger.debug("no thumbnail of row %d: %s", row, error)
        return None


def _opened(raw: Any) -> Image:
    from PIL import Image

    if not isinstance(raw, bytes | bytearray | memoryview):
        return Image.fromarray(_eight_bits(np.asarray(raw)))
    if len(raw) > _MOST_BYTES:
        raise ValueError("too many bytes for a thumbnail")
    Image.init()
    image = Image.open(io.BytesIO(raw), formats=[name for name in _FORMATS if name in Image.OPEN])
    if image.width * image.height > _MOST_PIXELS:
        raise ValueError("too many pixels for a thumbnail")
    image.draft("RGB", (2 * _SIDE, 2 * _SIDE))
    if image.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(image)))
    return image


def _eight_bits(pixels: Any) -> Any:
    """Return (h, w) or (h, w, 3 or 4) of 0 … 255, whatever the depth."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * 255
    number = np.nan_to_num(pixels.astype(np.float64))
    low, high = float(number.min()), float(number.max())
    if pixels.dtype.kind == "f" and low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    return np.round((number - low) * (255.0 / (high - low) if high > low else 0.0)).astype(np.uint8)


def _encoded(image: Image) -> str:
    from PIL import Image as Images
    from PIL import ImageOps

    image.thumbnail((_SIDE, _SIDE))
    ImageOps.exif_transpose(image, in_place=True)  # when it is small
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        # Transparent parts are shown on grey, which is neither of the two backgrounds of the page.
        image = Images.new("RGB", layer.size, (128, 128, 128))
        image.paste(layer, mask=layer.getchannel("A"))
    written = io.BytesIO()
    image.convert("RGB").save(written, format="JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(written.getvalue()).decode('ascii')}"


# Shares of all pictures: heaviest and lightest, one source only, copies.
_SHARES = (0.6, 0.2, 0.2)
_MOST_OF_SOURCE = 6
_MOST_SOURCES = 36


def choose_galleries(
    weighed: WeightedPool, copies: Copies | None, most: int
) -> tuple[tuple[Gallery, ...], str]:
    """Return the galleries and a note."""
    if weighed.private or most <= 0:
        return (), "No image is shown, nor its path or id." if weighed.private else ""
    extremes, alone, copied = (int(share * most) for share in _SHARES)
    galleries = [
        *_extremes(weighed, extremes),
        *_alone(weighed, alone),
        *_copied(weighed, copies, copied),
    ]
    shown = len({gallery.source for gallery in galleries if gallery.kind == "heaviest"})
    note = (
        f"Of {len(weighed.names):,} sources the {shown} that carry most weight are shown."
        if shown < len(weighed.names)
        else ""
    )
    return tuple(galleries), note


def _extremes(weighed: WeightedPool, most: int) -> Iterator[Gallery]:
    """Yield the heaviest and lightest images of each source."""
    n_sources = len(weighed.names)
    if most < 2:
        return
    weight_k = np.bincount(weighed.source_n, weights=weighed.weight_n, minlength=n_sources)
    chosen = np.argsort(-weight_k, kind="stable")[: min(_MOST_SOURCES, most // 2)]
    n_shown = max(1, min(_MOST_OF_SOURCE, most // (2 * chosen.size)))
    order = np.argsort(weighed.source_n, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(weighed.source_n, minlength=n_sources)))
    for k in sorted(chosen.tolist()):
        rows = order[start[k] : start[k + 1]]
        rows = rows[weighed.weight_n[rows] > 0]
        heaviest, others = _one_of_each(weighed, rows, -weighed.weight_n, n_shown)
        lightest, _ = _one_of_each(weighed, others, weighed.weight_n, n_shown)
        name = weighed.names[k]
        for kind, shown, note in (
            (
                "heaviest",
                heaviest,
                "The number is the weight: how many average images of the pool it counts for. Of "
                "images of one stratum with the same weight, one is shown.",
            ),
            ("lightest", lightest, "Of these the source has more than the target needs."),
        ):
            if shown.size:
                title = f"{kind.capitalize()} images of {name}"
                yield Gallery(kind, name, title, note, _pictures(weighed, shown))


def _one_of_each(weighed: WeightedPool, rows: Ints, key_n: Floats, most: int) -> tuple[Ints, Ints]:
    """Return ``most`` rows of smallest key and the rows not considered."""
    import pyarrow.compute as pc

    chosen: list[int] = []
    kind_n = _kinds(weighed)
    # To seven digits: equal but for rounding.
    key_m, kind_m = key_n[rows].astype(np.float32), kind_n[rows]
    while rows.size and len(chosen) < most:
        ties = key_m == key_m.min()
        ties &= kind_m == kind_m[ties].min()
        ids = _texts(weighed.frame["id"].iloc[rows[ties]])
        chosen.append(int(rows[ties][pc.index(ids, pc.min(ids)).as_py()]))
        rows, key_m, kind_m = rows[~ties], key_m[~ties], kind_m[~ties]
    return np.array(chosen, dtype=np.int64), rows


def _kinds(weighed: WeightedPool) -> Ints:
    """Return (n,) the stratum of each image, else its class, else 0."""
    if weighed.strata is not None:
        return np.asarray(weighed.strata.code, dtype=np.int64)
    if "label" not in weighed.frame.columns or holds_lists(weighed.frame["label"]):
        return np.zeros(weighed.n, dtype=np.int64)
    return np.asarray(text_levels(weighed.frame["label"], "label")[1], dtype=np.int64)


def _texts(column: pd.Series[Any]) -> Any:
    """Return an Arrow array of text, whose order is that of Python."""
    import pandas as pd
    import pyarrow as pa

    is_text = isinstance(column.dtype, pd.StringDtype)
    return pa.array(column if is_text else list(map(str, column)), pa.large_string())


def only_source(weighed: WeightedPool) -> Ints:
    """Return (n,) the only source whose ω is positive for an image."""
    only_n = np.full(weighed.n, -1, dtype=np.int64)
    if len(weighed.names) == 1:
        return only_n
    estimation = weighed.weights.estimation
    if estimation is not None:
        fitted = estimation.fitted
        log_mk, which_r = fitted.profile.distinct_omega()
        only_m = _only(~np.isneginf(log_mk[:, : len(weighed.names)]))
        only_n[fitted.row] = only_m[which_r[: fitted.data.n_pool]]
    elif weighed.weights.rows is not None:
        for rows, q_bk in weighed.weights.rows.memberships(weighed.weights.solution.u):
            only_n[rows] = _only(np.asarray(q_bk.toarray() if sp.issparse(q_bk) else q_bk) > 0)
    return only_n


def _only(positive_bk: Any) -> Ints:
    return np.where(positive_bk.sum(axis=1) == 1, positive_bk.argmax(axis=1), -1)


def _alone(weighed: WeightedPool, most: int) -> Iterator[Gallery]:
    only_n = only_source(weighed)
    counts = np.bincount(only_n[only_n >= 0], minlength=len(weighed.names))
    seeing = np.flatnonzero(counts)
    if not seeing.size or most <= 0:
        return
    chosen = seeing[np.argsort(-counts[seeing], kind="stable")][:most]
    n_shown = max(1, min(_MOST_OF_SOURCE, most // chosen.size))
    for k in sorted(chosen.tolist()):
        rows = np.flatnonzero(only_n == k)
        share = float(weighed.weight_n[rows].sum())
        note = (
            f"{count_text(int(counts[k]), 'image')}, {share:.1%} of the weight: for these the "
            "other sources have no evidence."
        )
        name = weighed.names[k]
        heaviest, _ = _one_of_each(weighed, rows, -weighed.weight_n, n_shown)
        yield Gallery(
            kind="one source only",
            source=name,
            title=f"Images that only {name} can see",
            note=note,
            pictures=_pictures(weighed, heaviest),
        )


def _copied(weighed: WeightedPool, copies: Copies | None, most: int) -> Iterator[Gallery]:
    """Yield the contents that several sources hold, each next to its copies."""
    if copies is None or most < 2:
        return
    rows = np.flatnonzero(copies.content >= 0)
    distinct, content_m = np.unique(copies.content[rows], return_inverse=True)
    pairs = np.unique(content_m * len(weighed.names) + weighed.source_n[rows])
    n_holders = np.bincount(pairs // len(weighed.names), minlength=distinct.size)
    across = n_holders > 1
    rows, content_m = rows[across[content_m]], content_m[across[content_m]]
    first_id = _smallest_ids(weighed, rows, content_m)
    chosen: list[int] = []
    for at in sorted(first_id, key=lambda code: (-int(n_holders[code]), first_id[code])):
        held = sorted(
            rows[content_m == at].tolist(),
            key=lambda row: (int(weighed.source_n[row]), str(weighed.frame["id"].iat[row])),
        )
        if chosen and len(chosen) + len(held) > most:
            break
        chosen += held[:most]
    if chosen:
        yield Gallery(
            kind="copies",
            source=None,
            title="Copies across sources",
            note="Copies of one image are next to each other.",
            pictures=_pictures(weighed, np.array(chosen, dtype=np.int64)),
        )


def _smallest_ids(weighed: WeightedPool, rows: Ints, content_m: Ints) -> dict[int, str]:
    """Return the first id of every content, in the order of texts."""
    smallest: dict[int, str] = {}
    for identity, at in zip(weighed.frame["id"].to_numpy()[rows], content_m.tolist(), strict=True):
        smallest[at] = min(smallest.get(at, str(identity)), str(identity))
    return smallest


def _pictures(weighed: WeightedPool, rows: Ints) -> tuple[Thumbnail, ...]:
    frame, weight_n = weighed.frame, weighed.weights.sample_weight
    return tuple(
        Thumbnail(
            id=plain_text(str(frame["id"].iat[row]), 300),
            path=plain_text(str(frame["path"].iat[row]), 300) if "path" in frame.columns else None,
            source=weighed.names[weighed.source_n[row]],
            label=_label(frame["label"].iat[row]) if "label" in frame.columns else None,
            sample_weight=float(weight_n[row]),
            picture=make_thumbnail(weighed.pool, row),
        )
        for row in rows.tolist()
    )


def _label(value: Any) -> str | None:
    if isinstance(value, list | tuple | set | np.ndarray):
        return plain_text(", ".join(str(level) for level in value), 120)
    import pandas as pd

    from unskew.records.levels import level_text

    return None if pd.isna(value) else plain_text(level_text(value), 120)
