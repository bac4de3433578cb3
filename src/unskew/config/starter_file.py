"""The commented configuration that ``unskew init`` writes, ready to run.

Lines of the form ``#key = value`` are alternatives, valid when the # is taken away; all other
comments are prose and begin with ``# ``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unskew.config.toml_text import toml_key, toml_string, toml_value
from unskew.errors import first_few
from unskew.records import Pool
from unskew.records.levels import MISSING, holds_lists, text_levels
from unskew.sources.description import PoolDescription, describe_pool

# Cheap, and different wherever cameras or light are.
_FEATURES = ("brightness", "contrast", "sharpness")
# More classes than this are listed in a file, not in a line.
_MOST_LISTED = 30
# A column with more levels for each image than this tells images apart, not kinds of images.
_MOST_LEVELS_PER_IMAGE = 0.5
_WIDTH = 110

_COMMENTS = {
    "source": "the column that names each image's source",
    "label": 'the column of labels, called "label" from here on',
    "id": "the column of ids",
    "group": "images of one group belong together, and stay together in every split",
    "split": "train, validation or test: the bias model is fitted on train",
    "path": "the column of paths",
    "root": "where the paths of the table start",
    "images": "false: the table alone is enough, no image is opened",
    "tolerance": "so many images are missing or cannot be read: a run sets them aside",
}


@dataclass(frozen=True)
class _Plan:
    """What a first run can use.

    ``by``: the attribute whose levels are made equally frequent; without one, ``reference`` is the
    source that the others are made to resemble in ``features``; without features, all sources are
    assumed unbiased.
    """

    by: str | None = None
    some_missing: bool = False
    features: tuple[str, ...] = ()
    reference: str | None = None


def starting_config(pool: Pool, sources: Mapping[str, Any], *, name: str = "run.toml") -> str:
    """Write a commented configuration that ``unskew weigh`` runs unchanged.

    ``pool`` was read with the settings ``sources``. The target is a placeholder that always works:
    every class equally frequent; without classes, the largest source is assumed unbiased.
    """
    described, plan = describe_pool(pool), _choose(pool)
    parts = [
        _preface(name),
        _sources_part(described, sources),
        *([_represent_part()] if described.has_pixels else []),
        _target_part(described, plan),
        _bias_part(described, plan),
        _last_part(),
    ]
    return "\n".join("\n".join(part) + "\n" for part in parts)


def _choose(pool: Pool) -> _Plan:
    columns = ["label"] if "label" in pool.frame.columns else []
    if pool.images is None:
        columns += pool.attributes
    for name in columns:
        levels = _levels_of(pool, name)
        if levels:
            return _Plan(by=name, some_missing=MISSING in levels)
    features = _FEATURES if pool.images is not None else _complete_numbers(pool)
    return _Plan(features=features, reference=_largest_source(pool)) if features else _Plan()


def _levels_of(pool: Pool, name: str) -> list[str]:
    """List the levels of a column that can be strata: two or more, far fewer than images."""
    column = pool.frame[name]
    if (
        holds_lists(column)
        or column.dtype.kind == "f"
        or (name != "label" and column.dtype.kind in "iu")
    ):
        return []
    levels, _ = text_levels(column, name)
    known = len(levels) - (MISSING in levels)
    return levels if 2 <= known <= max(2, _MOST_LEVELS_PER_IMAGE * len(pool)) else []


def _complete_numbers(pool: Pool) -> tuple[str, ...]:
    """Find numeric attributes that every image has and that vary."""
    import numpy as np
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    names = []
    for name in pool.attributes:
        column = pool.frame[name]
        if is_numeric_dtype(column) and not is_bool_dtype(column):
            value_n = column.to_numpy(dtype=np.float64, na_value=np.nan)
            if np.isfinite(value_n).all() and np.ptp(value_n) > 0:
                names.append(name)
    return tuple(names[:4])


def _largest_source(pool: Pool) -> str:
    """Find the largest source; with splits, among the images that bias models are fitted on."""
    frame = pool.frame
    if "split" in frame.columns:
        split = frame["split"].astype(str)
        names = set(split)
        frame = frame[split == ("train" if "train" in names else split.value_counts().index[0])]
    return str(frame["source"].value_counts().index[0])


def _prose(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _setting(key: str, value: Any, comment: str = "", before: str = "") -> str:
    line = f"{before}{key} = {toml_value(value)}"
    return f"{line:<40} # {comment}" if comment else line


def _alternative(key: str, value: Any, comment: str = "") -> str:
    return _setting(key, value, comment, before="#")


def _preface(name: str) -> list[str]:
    # To be copied into a terminal, and on one line whatever the file is called.
    file = name if re.fullmatch(r"[\w./-]+", name) else toml_string(name)
    return [
        *_prose(
            "Written by `unskew init`: what was found, and what only you know. It is ready to run; "
            "edit it, then"
        ),
        f"#     unskew check {file}               can this be debiased?",
        f"#     unskew weigh {file} -o results    one weight for every image, and a page that "
        "explains them",
        *_prose(
            "A line that begins with # and a key is an alternative: remove the #, and the line "
            "that it replaces. Paths start at the folder of this file. The documentation's page on "
            "configurations explains every key."
        ),
    ]


def _sources_part(described: PoolDescription, sources: Mapping[str, Any]) -> list[str]:
    sizes = [f"{toml_string(source.name)} {source.images:,}" for source in described.sources]
    lines = [
        "[sources]",
        *_prose(
            f"{described.images:,} images from {len(sizes)} source{'s' * (len(sizes) > 1)}: "
            f"{first_few(sizes, 20)}."
        ),
    ]
    if described.unreadable:
        lines += _prose(
            f"{sum(reason.images for reason in described.unreadable):,} more cannot be used; a run "
            "lists them with their reasons."
        )
        if "tolerance" not in sources:
            lines.append(
                _alternative(
                    *("tolerance", 0.05),
                    "the share of unusable images at which a run stops; default 0.01",
                )
            )
    for key, value in sources.items():
        if isinstance(value, Mapping) and key != "group":
            lines += [
                _setting(f"{key}.{toml_key(str(name))}", entry) for name, entry in value.items()
            ]
        else:
            lines.append(_setting(toml_key(str(key)), value, _COMMENTS.get(key, "")))
    if "folders" in sources and described.labels and "label" not in sources:
        lines.append(_alternative("label", False, "if the subfolders are not classes"))
    if described.groups is None:
        lines += _prose(
            "Are there several images of one patient, burst or product? They are not independent: "
            "name the column, or the part of the file name in parentheses, that they share."
        )
        has_names = described.has_pixels and ("folders" in sources or "manifest" in sources)
        lines.append(_alternative("group", {"regex": r"^([^_]+)_"} if has_names else "patient_id"))
    if described.columns:
        names = [toml_string(column.name) for column in described.columns]
        lines += _prose(
            f"Other columns, which [target], [bias] and [report] may name: {first_few(names, 20)}."
        )
    return lines + _roles_of_columns(described, sources)


def _roles_of_columns(described: PoolDescription, sources: Mapping[str, Any]) -> list[str]:
    """Offer source and label where one table is one source, and has columns that could be them."""
    tables = sources.get("manifest")
    most = max(2, _MOST_LEVELS_PER_IMAGE * described.images)
    names = [
        column.name
        for column in described.columns
        if column.kind == "category" and 2 <= column.n_levels <= most
    ]
    if not names or not isinstance(tables, Mapping) or len(tables) > 1:
        return []
    lines = _prose(
        "The table is one source. If a column names the database, camera or site of each image, "
        "the table has no name of its own, and the column gives the sources theirs:"
    )
    lines.append(_alternative("manifest", *tables.values()))
    lines.append(_alternative("source", names[-1]))
    if "label" not in sources and not described.labels:
        lines += _prose("If a column holds the classes:")
        lines.append(_alternative("label", names[0]))
    return lines


def _represent_part() -> list[str]:
    return [
        "[represent]",
        *_prose(
            "Numbers computed from the pixels. Bias models may use them, and the page shows how "
            "far the sources differ in them. There are also mean_hsv, border_hsv, colourfulness, "
            "noise, size, aspect_ratio, exif and embedding."
        ),
        _setting("features", list(_FEATURES)),
    ]


def _target_part(described: PoolDescription, plan: _Plan) -> list[str]:
    placeholder = [
        "[target]",
        *_prose(
            "The population that results are about. THIS IS A PLACEHOLDER: only you can know it."
        ),
        _setting("guessed", True, "remove this line when the target is what you know"),
    ]
    of_sample = [
        *_prose(
            "If there are images of the population itself, labelled or not (with [bias] family "
            "tilt):"
        ),
        _alternative("sample", "target-images", "a folder, or a table"),
    ]
    if plan.by is not None:
        return [
            *placeholder,
            *_equal_levels(plan.by, plan.some_missing),
            *_margins_alternatives(described, plan.by),
            *of_sample,
            *_prose("If one source is known to be unbiased (with [bias] family tilt):"),
            _alternative("source", described.sources[0].name),
        ]
    if plan.reference is not None:
        return [*placeholder, *_resemble_source(plan.reference), *of_sample]
    # Nothing distinguishes the images: there is no target to describe.
    return [
        "#[target]",
        *_prose(
            "The population that results are about: add columns to the table, then describe "
            "their distribution here."
        ),
        *of_sample,
    ]


def _equal_levels(by: str, some_missing: bool) -> list[str]:
    lines = _prose(
        f"Here every level of {toml_string(by)} is equally frequent, which is seldom true of a "
        "real population."
    )
    lines.append(_setting("uniform", by))
    if some_missing:
        comment = "images without it keep their share of the pool; or drop, level"
        lines.append(_setting(f"missing.{toml_key(by)}", "keep", comment))
    return lines


def _resemble_source(reference: str) -> list[str]:
    return [
        *_prose(
            "Here the largest source is assumed unbiased, and the others are made to resemble it."
        ),
        _setting("source", reference),
        *_prose(
            "If the images had labels, and their shares in the population were known (with [bias] "
            "family strata):"
        ),
        _alternative(
            "margins.label",
            {"file": "survey.csv", "n": 400},
            "a file with the columns label and count, from a survey of 400",
        ),
    ]


def _margins_alternatives(described: PoolDescription, by: str) -> list[str]:
    key = f"margins.{toml_key(by)}"
    lines = []
    counts = _counts(described, by)
    if 0 < len(counts) <= _MOST_LISTED:
        lines += _prose(
            "If their shares are known, give them as counts or probabilities (here: those of the "
            "pool):"
        )
        lines.append(_alternative(key, counts))
    lines += _prose(
        f"If they are in a file with the columns {toml_string(by)} and count, from a survey of 400:"
    )
    lines.append(_alternative(key, {"file": "survey.csv", "n": 400}))
    return lines


def _counts(described: PoolDescription, by: str) -> dict[str, int]:
    if by == "label":
        return {label.level: label.images for label in described.labels}
    column = next(column for column in described.columns if column.name == by)
    return dict(column.levels) if len(column.levels) == column.n_levels else {}


def _bias_part(described: PoolDescription, plan: _Plan) -> list[str]:
    features = list(_FEATURES) if described.has_pixels else list(plan.features)
    if plan.by is not None:
        lines = _strata(plan.by, features)
    elif plan.reference is not None:
        lines = _tilt(features)
    else:
        lines = _unbiased([source.name for source in described.sources if source.images])
    return [
        "[bias]",
        *_prose(
            "How the sources select their images; the documentation's page on bias models helps "
            "to choose."
        ),
        *lines,
    ]


def _strata(by: str, features: list[str]) -> list[str]:
    lines = [
        *_prose(
            f"Strata: they differ in how often they show each level of {toml_string(by)}, and in "
            "nothing else."
        ),
        _setting("family", "strata"),
        _setting("by", [by]),
    ]
    if not features:
        return lines
    factors = [{"family": "strata", "by": [by]}, {"family": "soft_box", "features": features[:1]}]
    return [
        *lines,
        *_prose(
            "If they differ in light or camera instead, and the target is a sample or a source:"
        ),
        _alternative("family", "tilt"),
        _alternative("features", features),
        *_prose("If in both (with the target as above):"),
        _alternative("family", "product"),
        _alternative("factors", factors),
    ]


def _tilt(features: list[str]) -> list[str]:
    return [
        *_prose("Tilt: each source prefers some values of these columns over others, smoothly."),
        _setting("family", "tilt"),
        _setting("features", features),
        *_prose(
            "If each source sees all images within certain limits and none beyond (needs no "
            "target):"
        ),
        _alternative("family", "soft_box"),
        _alternative("standardise", True),
    ]


def _unbiased(sources: list[str]) -> list[str]:
    return [
        *_prose(
            "Nothing but the source is known of each image, so that there is nothing to correct "
            'by: all sources are assumed unbiased ("all"), and all images weigh the same.'
        ),
        _setting("family", "subpopulation"),
        *(_setting(f"queries.{toml_key(name)}", "all") for name in sources),
    ]


def _last_part() -> list[str]:
    return [
        "[report]",
        _alternative("title", "Three sites, one forest"),
        _alternative(
            "privacy", "aggregate", "no thumbnails, paths or ids; cells under 10 images suppressed"
        ),
        "",
        "[engine]",
        _setting("seed", 0, "of everything random: the same seed gives the same weights"),
        _alternative("jobs", 2, "processor cores; all of them by default"),
    ]
