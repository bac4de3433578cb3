"""The section [learn]: what `unskew train` trains, on what, and how; see sections.py."""

from __future__ import annotations

from typing import Any, Literal

from unskew.config.key_rules import (
    BelowOne,
    Count,
    Inside,
    NotNegative,
    Portion,
    Positive,
    Section,
    Share,
    Text,
    Whole,
    setting,
)
from unskew.learn.presets import Way


class LearnSection(Section):
    """What `unskew train` trains, on what, and how."""

    preset: Literal["fast", "finetune", "article", "probe"] = setting(
        '"fast", "finetune", "article" or "probe"',
        "`fast`: a small network and a short schedule, for processors; `finetune`: a pretrained "
        "network, from a probe as its last layer on; `article`: ResNet-56 and the article's "
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
    epochs: Whole | None = setting(
        "a whole number above 0",
        "Passes over the training images; without it, the preset's (of `fast`: 4, and up to 40 "
        "where images are few).",
    )
    batch: Whole | None = setting(
        "a whole number above 0",
        "Images in a step; without it, the preset's (of `fast`: 512, and down to 32 where images "
        "are few).",
    )
    optimizer: Literal["sgd", "adamw"] | None = setting(
        '"sgd" or "adamw"', "The optimiser; without it, the preset's."
    )
    learning_rate: Positive | None = setting(
        "a number above 0", "Its largest value; without it, the preset's."
    )
    schedule: Literal["one_cycle", "cosine", "steps", "constant"] | None = setting(
        '"one_cycle", "cosine", "steps" or "constant"',
        "How the learning rate changes: up and down linearly; up and down by half a cosine; "
        "divided by 10 at each milestone; not at all. Without it, the preset's.",
    )
    warmup: BelowOne | None = setting(
        "a share from 0 to 1",
        "Of the steps, how many the rate rises for, with `one_cycle` and `cosine`.",
    )
    milestones: list[Share] | None = setting(
        "a list of shares between 0 and 1, ascending",
        "Where `steps` divides the rate, as shares of the epochs; of `article` [0.5, 0.75], "
        "whatever its epochs.",
    )
    momentum: BelowOne | None = setting(
        "a share, 0 or more, below 1",
        "Of the optimiser (of `adamw`: β₁); without it, the preset's.",
    )
    weight_decay: NotNegative | None = setting(
        "a number, 0 or more", "Of the optimiser; without it, the preset's."
    )
    label_smoothing: BelowOne | None = setting(
        "a share, 0 or more, below 1", "Of the training loss; without it, the preset's."
    )
    head_share: Share | None = setting(
        "a share from 0 to 1",
        "Of the epochs, how many, from the first on, train the last layer only; 1: all of them. "
        "Without it, 0.",
    )
    probe_start: bool | None = setting(
        "true or false",
        "Let the last layer start as a probe of what the others make of the training images, and "
        "average the network between its start and its end as suits the validation images. Without "
        "it, true of `finetune`, false of the others.",
    )
    frozen_share: BelowOne | None = setting(
        "a share, 0 or more, below 1",
        "Of the parameters before the last layer, in their order, how many stay as they were "
        "pretrained. Without it, 0.25 of `finetune`, 0 of the others.",
    )
    backbone_rate: Positive | None = setting(
        "a number above 0",
        "The rate of the other layers, as a share of the last one's, where `head_share` is above "
        "0 or `probe_start` true; without it, 1.",
    )
    update_batch_norm: bool | None = setting(
        "true or false",
        "Estimate the statistics of batch normalisation after each epoch, on images drawn by "
        "weight; false: use the running averages of training. Without it, true.",
    )
    fix_batch_norm: bool | None = setting(
        "true or false",
        "Keep the statistics of batch normalisation that the network was pretrained with, in "
        "training, too. Without it, true of `finetune`, false of the others.",
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
        "true or false", "Change images at random, as the following keys say; without it, true."
    )
    crop: Literal["shift", "resized", "none"] | None = setting(
        '"shift", "resized" or "none"',
        "Shift images by up to `pad` pixels; enlarge a random rectangle of them; or neither. "
        "Without it, the preset's.",
    )
    smallest_crop: Portion | None = setting(
        "a share above 0, at most 1", "Of the area, with `resized`; without it, 0.35."
    )
    pad: Count | None = setting(
        "a whole number, 0 or more", "Pixels, with `shift`; without it, the preset's."
    )
    flip: bool | None = setting(
        "true or false",
        "Mirror half of the images; without it, true. Not for digits, letters or scenes with a "
        "left and a right.",
    )
    jitter: BelowOne | None = setting(
        "a share, 0 or more, below 1",
        "How far brightness, contrast and saturation are changed; without it, the preset's: 0.2 of "
        "`finetune`, 0 of the others.",
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
    cutout: Count | None = setting(
        "a whole number, 0 or more", "Side of a square that is blanked out at random; 0: none."
    )
    patience: Whole | None = setting(
        "a whole number above 0",
        "Epochs without a lower weighted validation loss after which training stops; without it, "
        "never.",
    )
    validation: Inside = setting(
        "a share between 0 and 1",
        "How many of the images become the validation split, where the images have no splits.",
        0.15,
    )
    arms: list[Text] = setting(
        "a list of names",
        "What to train: `debiased`, `naive`, or a baseline by name; several are compared.",
        ["debiased"],
        min_length=1,
    )
    seeds: Whole = setting(
        "a whole number above 0",
        "Train every arm so many times, with the seed of `[engine]` and those after it: figures "
        "are means, and intervals count training noise. A probe is fitted exactly, and trained "
        "once.",
        1,
    )
    by: list[Text] = setting(
        "a list of columns",
        "Accuracy is also shown by these; `a*b`: by every combination of two.",
        [],
    )
    ridge: Positive | None = setting(
        "a number above 0", "Penalty of the probe; without it, chosen from the data."
    )
    device: Text | None = setting("a device", "`cpu`, `cuda` or `auto`; without it, the preset's.")
    devices: Whole | None = setting(
        "a whole number above 0", "How many of them share each step; without it, one."
    )
    precision: Text | None = setting(
        "a precision of Lightning Fabric",
        "Such as `32-true` or `bf16-mixed`; `auto`: mixed on a graphics card, `32-true` on a "
        "processor. Without it, the preset's.",
    )
    memory: Count = setting(
        "a whole number of megabytes, 0 or more",
        "Pixels that need more are kept in a temporary file and read as they are needed.",
        1024,
    )
    logger: Text | None = setting(
        "the name of a logger",
        "`tensorboard`, `csv`, `mlflow`, `wandb`, `none`, or a logger class of Lightning as "
        "module:Class; without it, `tensorboard`.",
    )
    logger_options: dict[Text, Any] | None = setting(
        "a table", 'What the logger is called with, such as { project = "faces" }.'
    )
