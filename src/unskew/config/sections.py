"""The sections of a configuration: each key with its type, its default, what it takes (``title``)
and what it means (``description``).

Error messages and docs/configuration.md are made of the same words; a test compares the page with
this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import field_validator, model_validator

from unskew.config.key_rules import (
    BelowOne,
    ColumnRule,
    Count,
    Inside,
    Portion,
    Section,
    Share,
    SplitRule,
    Text,
    Whole,
    setting,
)
from unskew.config.learn_section import LearnSection
from unskew.config.problems import names_table
from unskew.represent.decode import MAX_PIXELS
from unskew.sources.readers import SETTINGS
from unskew.target.settings import TARGET_KINDS

# Where images come from: exactly one of them, with the keys that go with it.
SOURCE_KINDS: dict[str, tuple[str, ...]] = {
    kind: (*dict.fromkeys([*keys, "images"]), "tolerance", "max_pixels")
    for kind, keys in SETTINGS.items()
}
# Parts are tables: their images are not opened.
PARTS = "parquet"
# What is known of the population: exactly one of them, with the keys that go with it.
KINDS_OF_TARGET: dict[str, tuple[str, ...]] = {
    kind: (*keys, "guessed") for kind, keys in TARGET_KINDS.items()
}
# The ones whose images have file names, which a regular expression can read.
WITH_FILE_NAMES = ("folders", "manifest")


def kind_of(settings: Any, kinds: Mapping[str, Any]) -> str | None:
    """Tell which of the kinds a section is; None if it is none of them, or several at once."""
    named = [kind for kind in kinds if kind in settings] if isinstance(settings, Mapping) else []
    return named[0] if len(named) == 1 else None


def _filled(
    settings: Any, kinds: Mapping[str, tuple[str, ...]], defaults: Mapping[str, Any]
) -> Any:
    """Add the defaults that go with the kind, so that the resolved settings list them."""
    kind = kind_of(settings, kinds)
    if kind is None:
        return settings
    return settings | {
        key: value for key, value in defaults.items() if key in kinds[kind] and key not in settings
    }


_COLUMN = "the name of a column"
_COLUMN_OR_REGEX = 'the name of a column, or { regex = "…(…)…" }'
_FOLDER_TOO = 'the name of a column, "folder", { regex = "…(…)…" }, or false'


class SourcesSection(Section):
    """Where the images of each source are, and what the columns of their tables mean."""

    folders: dict[Text, Text] | None = setting(
        "a table of name = folder",
        "A folder of images for each source. Subfolders are classes; a `metadata.csv` or "
        "`metadata.jsonl` next to the images adds columns.",
        min_length=1,
    )
    manifest: Text | dict[Text, Text] | None = setting(
        "a file, or a table of name = file",
        "A table with one row for each image (CSV, Parquet, JSONL), or a COCO or COCO Camera "
        "Traps file. One for all sources, or one each.",
        min_length=1,
    )
    arrays: Text | dict[Text, Text] | None = setting(
        "a file, or a table of name = file",
        "Images as arrays in an `.npz` file. One for all sources, or one each.",
        min_length=1,
    )
    cifar: Text | dict[Text, Text] | None = setting(
        "a file or folder, or a table of name = file or folder",
        "The CIFAR-10 or CIFAR-100 archive as distributed, packed or unpacked.",
        min_length=1,
    )
    huggingface: Text | dict[Text, Text] | None = setting(
        "a dataset, or a table of name = dataset",
        "A Hugging Face dataset: a folder, or a name to fetch.",
        min_length=1,
    )
    parquet: Text | dict[Text, Text] | None = setting(
        "a folder, glob, file or address, or a table of name = one of these",
        "Parquet parts, read block by block where they are [more than fits into memory](scale.md). "
        "WebDataset shards (`train-*.tar`) are parts, too. Images are opened only to compute "
        "[represent] features.",
        min_length=1,
    )
    source: Text | None = setting(
        _COLUMN, "The column that names each image's source, where one file has several."
    )
    label: ColumnRule | Literal[False] | None = setting(
        _FOLDER_TOO,
        "The column of labels. Without it the column `label`, or, with folders, the subfolder of "
        'an image (`"folder"` says so, too); `false`: no labels.',
    )
    id: Text | None = setting(
        _COLUMN,
        "The column of ids, which are unique. Without it ids are made of sources and paths.",
    )
    group: ColumnRule | None = setting(
        _COLUMN_OR_REGEX,
        "Images that belong together (one patient, one burst, one product): a column, or what the "
        'parentheses of a regular expression find in the file name (`on = "path"`: in the path '
        "within the source).",
    )
    split: SplitRule | Literal[False] | None = setting(
        'the name of a column, "folder", { regex = "…(…)…" }, { file = "…" }, or false',
        'The column that says train, validation or test; `"folder"`: the first subfolder says it; '
        '`{ file = "splits.csv" }`: a table of id and split, as `unskew split` writes it. Bias '
        "models are fitted on train; every split gets weights of its own.",
    )
    design_weight: Text | None = setting(
        _COLUMN,
        "Inverse chances with which sources drew their images, up to a factor of the source; 0 "
        "leaves an image out. Without it the column `design_weight`, if there is one.",
    )
    path: Text | None = setting(
        _COLUMN, "The manifest's column of paths. Without it `path`, `file_name` or `filename`."
    )
    image: Text | None = setting(
        _COLUMN,
        "The column of images of a Hugging Face dataset; without it, the only one. Of parts: of "
        "paths or encoded images; without it `path` or `image`.",
    )
    images: bool = setting(
        "true or false", "`false`: the table alone is enough, no image is opened.", True
    )
    root: Text | None = setting(
        "a folder",
        "Where the paths of the manifest start; without it, at the manifest's own folder.",
    )
    allow_outside: bool | None = setting(
        "true or false", "Accept paths in the manifest that lead out of `root`. Default `false`."
    )
    label_separator: Text | None = setting(
        "a piece of text",
        "Splits the label of an image that has several (`cat;dog`): the column becomes a list.",
    )
    labels: list[Text] | None = setting(
        "names of columns",
        "Columns of 0 and 1, one for each label, where images may have several; empty: unknown.",
    )
    delimiter: Text | None = setting(
        "a piece of text",
        "Between the fields of a CSV manifest; a comma by default (a tab in a `.tsv`).",
    )
    several: Literal["list", "join"] | None = setting(
        '"list" or "join"',
        "Labels of a COCO file whose images show several categories: a list, or all of them as "
        "one level `fox+hare`.",
    )
    verify: bool | None = setting(
        "true or false", "Check the CIFAR archive against the official checksums. Default `true`."
    )
    download: bool | None = setting(
        "true or false", "Fetch the CIFAR archive if it is not there. Default `false`."
    )
    tolerance: Share = setting(
        "a share between 0 and 1",
        "How many of the images may be unusable before the run stops; fewer are set aside and "
        "listed.",
        0.01,
    )
    max_pixels: Whole = setting(
        "a whole number above 0",
        "Images with more pixels are set aside: a small file may unpack to more than fits into "
        "memory.",
        MAX_PIXELS,
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, settings: Any) -> Any:
        defaults = {"allow_outside": False, "verify": True, "download": False}
        if kind_of(settings, SOURCE_KINDS) == PARTS:
            defaults["images"] = False
        return _filled(settings, SOURCE_KINDS, defaults)


class RepresentSection(Section):
    """Which numbers are computed from the pixels."""

    features: list[Text | dict[str, Any]] = setting(
        'a list of names, { name = "…", … }, "module:function" and { file = "…", id = "…" }',
        "What to compute from each image, with settings where the defaults do not suit. A name "
        "means its columns (`border_hsv` for `border_hsv_h`, `border_hsv_s` and `border_hsv_v`). "
        "A `file` (a folder, glob or address of Parquet parts, or a table) has numbers that were "
        "computed elsewhere, such as embeddings: its columns are joined by `id` (default `id`).",
        [],
    )
    cache: Text | Literal[False] = setting(
        "a folder, or false",
        "Where computed numbers are kept, so that a second run computes nothing. `false`: nowhere.",
        ".unskew-cache",
    )

    @field_validator("features", mode="before")
    @classmethod
    def _list_one(cls, features: Any) -> Any:
        return [features] if isinstance(features, Mapping) else features

    @property
    def computed(self) -> list[Any]:
        """What is computed from the images."""
        return [feature for feature in self.features if not names_table(feature)]

    @property
    def tables(self) -> list[dict[str, str]]:
        """What is joined from files: their paths and columns of ids."""
        named = [f for f in self.features if isinstance(f, dict) and names_table(f)]
        return [{"file": feature["file"], "id": feature.get("id", "id")} for feature in named]


Outside = Literal["keep", "drop"]


class TargetSection(Section):
    """The population that results are about."""

    uniform: Text | list[Text] | None = setting(
        "an attribute, or a list of attributes",
        "Every level, or combination of levels, has the same mass.",
        min_length=1,
    )
    margins: dict[Text, Any] | None = setting(
        'a table of attribute = { level = number, … } or { file = "…", n = … }',
        "The distribution of each attribute: levels with counts or probabilities, or a CSV file "
        "of them; `n`, the size of the survey behind it, or a column `stderr` of the file enters "
        "every interval.",
        min_length=1,
    )
    table: Text | dict[str, Any] | None = setting(
        'a CSV file, { file = "…", n = … }, or { by = […], rows = [[level, …, mass], …] }',
        "The joint distribution of several attributes.",
    )
    sample: Text | None = setting(
        "a folder or file",
        "Images drawn from the target, labelled or not; they take no part in training.",
    )
    source: Text | None = setting("the name of a source", "A source that is known to be unbiased.")
    predictions: dict[str, Any] | None = setting(
        'a table { target_scores = "…", validation_scores = "…" }',
        "Shares of classes, estimated from a classifier's scores: two tables of probabilities, of "
        "unlabelled images of the target and of labelled ones. See [label shift](label-shift.md).",
    )
    interactions: Text | dict[str, Any] | None = setting(
        '"within", "pool", or a joint table, as in target.table',
        "With several `margins`: the odds ratios that the sources share (`within`), or others.",
    )
    bins: dict[Text, list[float]] | None = setting(
        "a table of attribute = [edge, edge, …]",
        "Numeric attributes are cut at these edges: [0, 40) [40, 60] of `[0, 40, 60]`.",
    )
    outside: dict[Text, Outside | dict[str, Outside]] | None = setting(
        'a table of attribute = "keep" or "drop", or attribute = { level = "keep" or "drop" }',
        "Levels beyond the target's scope: kept at their share of the pool, or dropped. A level "
        "without a rule is an error.",
    )
    missing: dict[Text, Literal["error", "level", "drop", "keep"]] | None = setting(
        'a table of attribute = "error", "level", "drop" or "keep"',
        "Images without a value: an error (the default), a level of their own, dropped, or kept "
        "at their share of the pool.",
    )
    unit: Literal["image", "group"] | None = setting(
        '"image" or "group"',
        "What the masses count; a group shares its weight among its images. Default `image`.",
    )
    uncovered: Literal["error", "restrict"] | None = setting(
        '"error" or "restrict"',
        "Target mass where no source has images is an error, or the target is made smaller. "
        "Default `error`.",
    )
    within: float | dict[str, float | list[float]] | None = setting(
        "a distance of masses, such as 0.05, or a table of level = distance or [smallest, largest]",
        "With one of `margins`, or `table`: the masses are known up to this set only. See [several "
        "targets](several-targets.md#a-margin-known-up-to-a-set).",
    )
    holdout: BelowOne | None = setting(
        "a share from 0 to below 1",
        "With `sample` or `source`: the share of it that judges the weights and does not fit "
        "them. Default `0.0`.",
    )

    guessed: bool | None = setting(
        "true or false",
        "`true`, as `unskew init` writes it: the target is a placeholder, and check, page, model "
        "card and verify say so. Remove the line when the target is what you know.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, settings: Any) -> Any:
        defaults = {"unit": "image", "uncovered": "error", "holdout": 0.0}
        return _filled(settings, KINDS_OF_TARGET, defaults)

    def known_facts(self) -> dict[str, Any]:
        """Return what `Target.from_dict` takes: everything but who wrote it."""
        return {key: value for key, value in self.settings().items() if key != "guessed"}


class SolveSection(Section):
    """How the equations are solved, and when a target is given up."""

    method: Literal["newton", "fixed_point", "sgd"] = setting(
        '"newton", "fixed_point" or "sgd"',
        "Newton's method (exact), Vardi's iteration (an independent check), or the article's "
        "stochastic gradient descent.",
        "newton",
    )
    tol: Inside = setting(
        "a number between 0 and 1", "Error of the log normalizers at which to stop.", 1e-10
    )
    max_steps: Whole | None = setting(
        "a whole number above 0",
        "Most steps; without it 100 for newton, 100,000 for fixed_point, 4,000 for sgd.",
    )
    max_uncovered: Portion = setting(
        "a share above 0, at most 1",
        "With a sample of the target: the largest share of it that no source may resemble. More "
        "is not identifiable.",
        0.2,
    )


class ReportSection(Section):
    """What the page shows."""

    title: Text | None = setting("a piece of text", "The page's title.")
    privacy: Literal["full", "aggregate"] = setting(
        '"full" or "aggregate"',
        "`aggregate`: no thumbnails, paths or ids, and cells under 10 images suppressed.",
        "full",
    )
    thumbnails: bool = setting(
        "true or false", 'Show galleries of images; never with `privacy = "aggregate"`.', True
    )
    forecast: bool = setting(
        "true or false",
        "Predict what reweighting will bring (`unskew forecast`) with every run, and show it; "
        "needs labels and features.",
        False,
    )
    outcomes: list[Text] = setting(
        "a list of columns",
        "Columns whose target mean is shown, compared between sources, and bounded.",
        [],
    )


class EngineSection(Section):
    """How the run is carried out."""

    jobs: Whole | None = setting(
        "a whole number above 0", "Processor cores to use; without it, all."
    )
    seed: Count = setting(
        "a whole number, 0 or more", "Of everything random: folds, bootstrap, held-out images.", 0
    )
    name: Literal["local", "dask"] | None = setting(
        '"local" or "dask"',
        "Who computes blocks of parts: this process, or a Dask cluster "
        '(`pip install "unskew[dask]"`). Default `"local"`.',
    )
    address: Text | None = setting(
        "the address of a Dask scheduler",
        "Such as `tcp://10.0.0.5:8786`, allowed by `--allow-code tcp://10.0.0.5:8786`; without it, "
        "a Dask cluster is started on this machine.",
    )
    workers: int | None = setting(
        "a whole number above 0",
        "Threads, or processes, that compute blocks; without it, `jobs`.",
        gt=0,
    )
    processes: bool | None = setting(
        "true or false", "Of the engine `local`: processes instead of threads. Default `false`."
    )
    cache: Text | None = setting(
        "a folder",
        "Where each worker keeps decoded columns, on a disk of its own; without it, a temporary "
        "folder that is removed in the end.",
    )
    block_rows: int | None = setting(
        "a whole number above 0", "Rows of a block, about. Default `1048576`.", gt=0
    )
    memory: float | None = setting(
        "a number above 0",
        "Gigabytes that the blocks of all workers together may take, about: their rows follow from "
        "it, as far as `block_rows` allows.",
        gt=0,
        allow_inf_nan=False,
    )
    retries: int | None = setting(
        "a whole number, 0 or more",
        "How often a block is computed again after a worker or a disk failed. Default `3`.",
        ge=0,
    )
    subsample: int | None = setting(
        "a whole number above 0",
        "Images to learn on; parts with no more are weighed in memory. Default `1000000`.",
        gt=0,
    )


# Keys of [engine] that say how parts are read: other sources are read as a whole.
ENGINE_OF_PARTS = tuple(key for key in EngineSection.model_fields if key not in ("jobs", "seed"))

SECTIONS: dict[str, type[Section]] = {
    "sources": SourcesSection,
    "represent": RepresentSection,
    "target": TargetSection,
    "solve": SolveSection,
    "learn": LearnSection,
    "report": ReportSection,
    "engine": EngineSection,
}
