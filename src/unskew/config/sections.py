"""The sections of a configuration: each key with its type, its default, what it takes (``title``)
and what it means (``description``).

Error messages and docs/configuration.md are made of the same words; a test compares the page with
this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from unskew.config.key_rules import ColumnRule, Section, Share, SplitRule, Text, setting
from unskew.learn.presets import Way
from unskew.represent.decode import MAX_PIXELS
from unskew.sources.readers import SETTINGS
from unskew.target.settings import TARGET_KINDS

# Where images come from: exactly one of them, with the keys that go with it.
SOURCE_KINDS: dict[str, tuple[str, ...]] = {
    kind: (*keys, "tolerance", "max_pixels") for kind, keys in SETTINGS.items()
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
        _COLUMN, "The column of images of a Hugging Face dataset; without it, the only one."
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
    max_pixels: int = setting(
        "a whole number above 0",
        "Images with more pixels are set aside: a small file may unpack to more than fits into "
        "memory.",
        MAX_PIXELS,
        gt=0,
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, settings: Any) -> Any:
        defaults = {"allow_outside": False, "verify": True, "download": False}
        return _filled(settings, SOURCE_KINDS, defaults)


class RepresentSection(Section):
    """Which numbers are computed from the pixels."""

    features: list[Text | dict[str, Any]] = setting(
        'a list of names, { name = "…", … } and "module:function"',
        "What to compute from each image, with settings where the defaults do not suit. A name "
        "means its columns (`border_hsv` for `border_hsv_h`, `border_hsv_s` and `border_hsv_v`).",
        [],
    )
    cache: Text | Literal[False] = setting(
        "a folder, or false",
        "Where computed numbers are kept, so that a second run computes nothing. `false`: nowhere.",
        ".unskew-cache",
    )


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
    holdout: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = setting(
        "a share from 0 to below 1",
        "With `sample` or `source`: the share of it that judges the weights and does not fit "
        "them. Default `0.0`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, settings: Any) -> Any:
        defaults = {"unit": "image", "uncovered": "error", "holdout": 0.0}
        return _filled(settings, TARGET_KINDS, defaults)


class SolveSection(Section):
    """How the equations are solved, and when a target is given up."""

    method: Literal["newton", "fixed_point", "sgd"] = setting(
        '"newton", "fixed_point" or "sgd"',
        "Newton's method (exact), Vardi's iteration (an independent check), or the article's "
        "stochastic gradient descent.",
        "newton",
    )
    tol: float = setting(
        "a number between 0 and 1",
        "Error of the log normalizers at which to stop.",
        1e-10,
        gt=0,
        lt=1,
        allow_inf_nan=False,
    )
    max_steps: int | None = setting(
        "a whole number above 0",
        "Most steps; without it 100 for newton, 100,000 for fixed_point, 4,000 for sgd.",
        gt=0,
    )
    max_uncovered: float = setting(
        "a share above 0, at most 1",
        "With a sample of the target: the largest share of it that no source may resemble. More "
        "is not identifiable.",
        0.2,
        gt=0,
        le=1,
        allow_inf_nan=False,
    )


class LearnSection(Section):
    """What `unskew train` trains, on what, and how."""

    preset: Literal["fast", "finetune", "article", "probe"] = setting(
        '"fast", "finetune", "article" or "probe"',
        "`fast`: a small network and a short schedule, for processors; `finetune`: a pretrained "
        "network, its last layer first, then all layers; `article`: ResNet-56 and the article's "
        "schedule, for graphics cards; `probe`: a linear model on the numbers of `[represent]` (or "
        "of the table).",
        "fast",
    )
    model: Text | None = setting(
        'the name of a network, or "module:factory"',
        "Instead of the preset's: `fast`, `resnet20`, `resnet32`, `resnet44`, `resnet56`, "
        "`resnet110`, `efficientnet-lite0` (pretrained, of the extra `embed`), or a function of "
        "your own that makes a torch module from the number of classes; with `finetune` it may "
        "also make a pretrained network without arguments, whose features get a last layer.",
    )
    size: int | None = setting(
        "a whole number from 1 to 4096",
        "Side in pixels of the squares that a network is given; without it 32, of `finetune` what "
        "the network was pretrained with, on a processor at most 128.",
        gt=0,
        le=4096,
    )
    resize: Literal["crop", "stretch", "pad"] = setting(
        '"crop", "stretch" or "pad"',
        "How an image becomes a square: its middle, the whole of it distorted, or with margins.",
        "crop",
    )
    epochs: int | None = setting(
        "a whole number above 0",
        "Passes over the training images; without it, the preset's (of `fast`: 4, and up to 40 "
        "where images are few).",
        gt=0,
    )
    batch: int | None = setting(
        "a whole number above 0",
        "Images in a step; without it, the preset's (of `fast`: 512, and down to 32 where images "
        "are few).",
        gt=0,
    )
    optimizer: Literal["sgd", "adamw"] | None = setting(
        '"sgd" or "adamw"', "The optimiser; without it, the preset's."
    )
    learning_rate: float | None = setting(
        "a number above 0",
        "Its largest value; without it, the preset's.",
        gt=0,
        allow_inf_nan=False,
    )
    schedule: Literal["one_cycle", "cosine", "steps", "constant"] | None = setting(
        '"one_cycle", "cosine", "steps" or "constant"',
        "How the learning rate changes: up and down linearly; up and down by half a cosine; "
        "divided by 10 at each milestone; not at all. Without it, the preset's.",
    )
    warmup: float | None = setting(
        "a share from 0 to 1",
        "Of the steps, how many the rate rises for, with `one_cycle` and `cosine`.",
        ge=0,
        lt=1,
        allow_inf_nan=False,
    )
    milestones: list[Share] | None = setting(
        "a list of shares between 0 and 1, ascending",
        "Where `steps` divides the rate, as shares of the epochs; of `article` [0.5, 0.75], "
        "whatever its epochs.",
    )
    momentum: float | None = setting(
        "a share, 0 or more, below 1",
        "Of the optimiser (of `adamw`: β₁); without it, the preset's.",
        ge=0,
        lt=1,
        allow_inf_nan=False,
    )
    weight_decay: float | None = setting(
        "a number, 0 or more",
        "Of the optimiser; without it, the preset's.",
        ge=0,
        allow_inf_nan=False,
    )
    label_smoothing: float | None = setting(
        "a share, 0 or more, below 1",
        "Of the training loss; without it, the preset's.",
        ge=0,
        lt=1,
        allow_inf_nan=False,
    )
    head_share: Share | None = setting(
        "a share from 0 to 1",
        "Of the epochs, how many, from the first on, train the last layer only; 1: all of them. "
        "Without it, the preset's: 0.2 of `finetune`, 0 of the others.",
    )
    backbone_rate: float | None = setting(
        "a number above 0",
        "The rate of the other layers, as a share of the last one's, where `head_share` is above "
        "0; without it, the preset's.",
        gt=0,
        allow_inf_nan=False,
    )
    update_batch_norm: bool | None = setting(
        "true or false",
        "Estimate the statistics of batch normalisation after each epoch, on images drawn by "
        "weight; false: use the running averages of training. Without it, true.",
    )
    normalization: Literal["data", "model"] | None = setting(
        '"data" or "model"',
        "Scale pixels by their weighted mean and deviation, or by those that the network was "
        "pretrained with; without it, the preset's: `model` of `finetune`, `data` of the others.",
    )
    mean: list[float] | None = setting(
        "three numbers",
        "Of red, green and blue from 0 to 1, instead of the mean that `normalization` names.",
        min_length=3,
        max_length=3,
    )
    std: list[float] | None = setting(
        "three numbers above 0", "The same of the deviation.", min_length=3, max_length=3
    )
    augment: bool | None = setting(
        "true or false",
        "Change images at random, as the following keys say; without it, true.",
    )
    crop: Literal["shift", "resized", "none"] | None = setting(
        '"shift", "resized" or "none"',
        "Shift images by up to `pad` pixels; enlarge a random rectangle of them; or neither. "
        "Without it, the preset's.",
    )
    smallest_crop: float | None = setting(
        "a share above 0, at most 1",
        "Of the area, with `resized`; without it, 0.35.",
        gt=0,
        le=1,
        allow_inf_nan=False,
    )
    pad: int | None = setting(
        "a whole number, 0 or more", "Pixels, with `shift`; without it, the preset's.", ge=0
    )
    flip: bool | None = setting(
        "true or false",
        "Mirror half of the images; without it, true. Not for digits, letters or scenes with a "
        "left and a right.",
    )
    jitter: float | None = setting(
        "a share, 0 or more, below 1",
        "How far brightness, contrast and saturation are changed; without it, the preset's: 0.2 of "
        "`finetune`, 0 of the others.",
        ge=0,
        lt=1,
        allow_inf_nan=False,
    )
    way: Way = setting(
        '"auto", "weights", "half", "logit" or "head"',
        "How the weights are learned from: they weight images, what the label explains of them "
        "shifts the logits, or half of each; `head`: half, then the last layer of a network is "
        "refitted on images that the rest has not seen; `auto`: chosen from the data.",
        "auto",
    )
    weighting: Literal["loss", "sampler"] | None = setting(
        '"loss" or "sampler"',
        "Weights multiply the loss of an image, or say how often it is drawn; without it, the "
        "preset's.",
    )
    cutout: int | None = setting(
        "a whole number, 0 or more",
        "Side of a square that is blanked out at random; 0: none.",
        ge=0,
    )
    patience: int | None = setting(
        "a whole number above 0",
        "Epochs without a lower weighted validation loss after which training stops; without it, "
        "never.",
        gt=0,
    )
    validation: float = setting(
        "a share between 0 and 1",
        "How many of the images become the validation split, where the images have no splits.",
        0.15,
        gt=0,
        lt=1,
        allow_inf_nan=False,
    )
    arms: list[Text] = setting(
        "a list of names",
        "What to train: `debiased`, `naive`, or a baseline by name; several are compared.",
        ["debiased"],
        min_length=1,
    )
    by: list[Text] = setting(
        "a list of columns",
        "Accuracy is also shown by these; `a*b`: by every combination of two.",
        [],
    )
    ridge: float | None = setting(
        "a number above 0",
        "Penalty of the probe; without it, chosen from the data.",
        gt=0,
        allow_inf_nan=False,
    )
    device: Text | None = setting("a device", "`cpu`, `cuda` or `auto`; without it, the preset's.")
    devices: int | None = setting(
        "a whole number above 0", "How many of them share each step; without it, one.", gt=0
    )
    precision: Text | None = setting(
        "a precision of Lightning Fabric",
        "Such as `32-true` or `bf16-mixed`; `auto`: mixed on a graphics card, `32-true` on a "
        "processor. Without it, the preset's.",
    )
    memory: int = setting(
        "a whole number of megabytes, 0 or more",
        "Pixels that need more are kept in a temporary file and read as they are needed.",
        1024,
        ge=0,
    )
    logger: Text | None = setting(
        "the name of a logger",
        "`tensorboard`, `csv`, `mlflow`, `wandb`, `none`, or the dotted name of a logger class of "
        "Lightning; without it, `tensorboard`.",
    )
    logger_options: dict[Text, Any] | None = setting(
        "a table", 'What the logger is called with, such as { project = "faces" }.'
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

    jobs: int | None = setting(
        "a whole number above 0", "Processor cores to use; without it, all.", gt=0
    )
    seed: int = setting(
        "a whole number, 0 or more",
        "Of everything random: folds, bootstrap, held-out images.",
        0,
        ge=0,
    )


SECTIONS: dict[str, type[Section]] = {
    "sources": SourcesSection,
    "represent": RepresentSection,
    "target": TargetSection,
    "solve": SolveSection,
    "learn": LearnSection,
    "report": ReportSection,
    "engine": EngineSection,
}
