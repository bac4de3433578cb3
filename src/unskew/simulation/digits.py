"""The data of ``unskew demo``: handwritten digits photographed by three cameras, as image files.

The cameras differ in which digits they see and in the light they see them in; where the model will
be used, every digit occurs as often as in the whole collection, and light is dim more often than
not. The mix was picked, among a few tried, because bias hurts there: an illustration, not a
benchmark. Expected result: the debiased model is several points better than the naive one, and as
good as one that knows how the cameras select.

Importing this is cheap, because worker processes do it for `grey_values`: heavy imports are inside
functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import ConfigError, WeakOverlapWarning
from unskew.files.atomic import write_text
from unskew.records import Estimate, Floats, Ints, Pool, Target

CAMERAS = ("archive", "counter", "survey")
SIZES = (1000, 200, 100)
LIGHTS = ("dim", "normal", "bright")
# Pixels are multiplied by this, then noise is added: what is dim is hard to read.
LIGHT_FACTOR = np.array([0.35, 0.65, 1.0])
NOISE = 0.15
LIGHT_SHARE = np.array([0.4, 0.3, 0.3])
# How readily each camera takes the digits 0 … 9, and the three lights, up to a factor. The big one
# never shows 1, 8 and 9, hardly ever 3, and works in bright light; the small ones see the rest,
# mostly in the dark.
DIGIT_ODDS = np.array(
    [
        (20, 0, 20, 1, 20, 20, 20, 20, 0, 0),
        (1, 6, 1, 6, 1, 1, 1, 1, 1, 1),
        (1, 6, 1, 1, 1, 1, 1, 1, 6, 6),
    ],
    dtype=np.float64,
)
LIGHT_ODDS = np.array([(1, 4, 20), (8, 4, 1), (8, 4, 1)], dtype=np.float64)
N_TEST = 600
SEEDS = tuple(range(20))
# Each of the 8 × 8 pixels is written as a square of this many.
_ZOOM = 4

CONFIGURATION = """\
# Three cameras, each with its own selection bias; light and handwriting of every picture stand in its metadata.csv.
[sources]
folders = { archive = "archive", counter = "counter", survey = "survey" }
group = "writing" # two pictures of the same handwriting are not independent, by whichever cameras

[represent]
# The last, the 8 × 8 grey values, is what a model would learn from: the forecast needs it.
features = ["brightness", "contrast", "sharpness", "unskew.simulation.digits:grey_values"]

# How often each digit occurs in which light where the model will be used.
[target]
table = "population.csv"
uncovered = "restrict"

# The cameras select by digit and by light.
[bias]
family = "strata"
by = ["label", "light"]

[report]
title = "Handwritten digits from three cameras"
"""  # noqa: E501


# What is trained, and what the forecast is asked about.
LEARNER = "sklearn.linear_model:LogisticRegression"


@dataclass(frozen=True, eq=False)
class Photos:
    """Photographed digits.

    pixels : (n, 64) between 0 and 1.
    digit, light : (n,) what each picture shows, and in which light.
    writing : (n,) the handwriting that it is a picture of.
    """

    pixels: Floats
    digit: Ints
    light: Ints
    writing: Ints


@dataclass(frozen=True, eq=False)
class Trial:
    """One random cut of the digits, and what was drawn from it.

    photos : the pictures of the three cameras, pooled.
    source : (n,) the camera of each, an index into CAMERAS.
    omega : (n, 3) the true biasing functions.
    unbiased : as many pictures drawn without bias, which nobody would have in practice.
    count : (10, 3) how often each digit occurs in each light where the model will be used.
    test : pictures of other handwritings, drawn from the target, to score on.
    """

    photos: Photos
    source: Ints
    omega: Floats
    unbiased: Photos
    count: Ints
    test: Photos


@dataclass(frozen=True)
class Score:
    """Accuracy on the test images: all, those of the digit recognised worst, those in dim light."""

    accuracy: float
    worst_digit: float
    dim: float


def make_trial(seed: int) -> Trial:
    """Hold out handwritings for the test, then let the cameras draw from the rest."""
    from sklearn.datasets import load_digits

    image, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(digit.size)
    test, rest = order[:N_TEST], order[N_TEST:]

    def shoot(writing: Ints, light: Ints) -> Photos:
        lit = LIGHT_FACTOR[light][:, None] * image[writing] / 16.0
        return Photos(
            np.clip(lit + rng.normal(0.0, NOISE, lit.shape), 0.0, 1.0),
            digit[writing],
            light,
            writing,
        )

    # Every handwriting in every light, and how often it is met.
    writing, light = np.repeat(rest, 3), np.tile(np.arange(3), rest.size)
    chance = LIGHT_SHARE[light] / rest.size
    digit_share = np.bincount(digit[rest]) / rest.size
    omega = (DIGIT_ODDS / digit_share)[:, digit[writing]].T * (LIGHT_ODDS / LIGHT_SHARE)[:, light].T
    picked_k = [
        rng.choice(chance.size, size, p=omega[:, k] * chance / np.sum(omega[:, k] * chance))
        for k, size in enumerate(SIZES)
    ]
    picked = np.concatenate(picked_k)
    unbiased = rng.choice(chance.size, picked.size, p=chance)
    per_cell = np.round(10_000 * digit_share[:, None] * LIGHT_SHARE).astype(np.int64)
    return Trial(
        photos=shoot(writing[picked], light[picked]),
        source=np.repeat(np.arange(len(SIZES)), SIZES),
        omega=omega[picked],
        unbiased=shoot(writing[unbiased], light[unbiased]),
        count=per_cell,
        test=shoot(test, rng.choice(3, N_TEST, p=LIGHT_SHARE)),
    )


def grey_values(images: Any) -> Floats:
    """Shrink pictures of digits, (m, 32, 32, 3), to their grey values, (m, 64) in [0, 1]."""
    small = np.asarray(images)[:, ::_ZOOM, ::_ZOOM, 0]
    return np.asarray(small.reshape(len(small), -1) / 255.0, dtype=np.float64)


def write_cameras(trial: Trial, folder: Path) -> Path:
    """Write the pictures as PNG files, camera/digit/file, with all that a run needs.

    That is a metadata.csv for each camera, the target's table and the configuration, whose path is
    returned.
    """
    from PIL import Image

    photos = trial.photos
    grey = np.kron(
        np.round(255 * photos.pixels).astype(np.uint8).reshape(-1, 8, 8),
        np.ones((1, _ZOOM, _ZOOM), dtype=np.uint8),
    )
    lines: dict[str, list[str]] = {name: ["file_name,light,writing"] for name in CAMERAS}
    for i, picture in enumerate(grey):
        camera = CAMERAS[trial.source[i]]
        name = f"{photos.digit[i]}/digit{photos.writing[i]:04d}_{i:04d}.png"
        (folder / camera / str(photos.digit[i])).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / camera / name)
        lines[camera].append(f"{name},{LIGHTS[photos.light[i]]},digit{photos.writing[i]:04d}")
    for camera, text in lines.items():
        write_text(folder / camera / "metadata.csv", "\n".join(text) + "\n")
    cells = [
        f"{digit},{LIGHTS[light]},{trial.count[digit, light]}"
        for digit in range(10)
        for light in range(3)
    ]
    write_text(folder / "population.csv", "\n".join(["label,light,count", *cells]) + "\n")
    write_text(folder / "run.toml", CONFIGURATION)
    return folder / "run.toml"


def prepare_demo(folder: Path, seed: int = 0) -> Path:
    """Write the demo's files into a new folder, or an earlier demo's; return run.toml's path."""
    import shutil

    if folder.exists() and any(folder.iterdir()):
        if (
            not (folder / "run.toml").is_file()
            or (folder / "run.toml").read_text(encoding="utf-8") != CONFIGURATION
        ):
            raise ConfigError(
                f"{str(folder)!r} is not empty, and no earlier demo made it. Name another folder "
                "with -o.",
                path=str(folder),
            )
        for name in (*CAMERAS, "results"):
            shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    # First, so that the next demo recognises one that was stopped in the middle.
    write_text(folder / "run.toml", CONFIGURATION)
    return write_cameras(make_trial(seed), folder)


def train_and_score(training: Photos, test: Photos, sample_weight: Floats | None = None) -> Score:
    """Train logistic regression with scikit-learn's defaults; score it on the unbiased test set."""
    from sklearn.linear_model import LogisticRegression

    model: Any = LogisticRegression(max_iter=2000).fit(
        training.pixels, training.digit, sample_weight=sample_weight
    )
    right = model.predict(test.pixels) == test.digit
    worst = min(float(right[test.digit == digit].mean()) for digit in range(10))
    return Score(float(right.mean()), worst, float(right[test.light == 0].mean()))


def pool_trial(trial: Trial) -> tuple[Pool, Target]:
    """Make the pool and the target of a trial, as the configuration would read them from files."""
    import pandas as pd

    photos = trial.photos
    cells = {
        "label": np.repeat(np.arange(10), 3),
        "light": np.tile(LIGHTS, 10),
        "count": trial.count.ravel(),
    }
    pool = Pool.from_arrays(
        np.array(CAMERAS)[trial.source],
        label=photos.digit,
        group=photos.writing,
        light=np.array(LIGHTS)[photos.light],
    )
    return pool, Target.table(pd.DataFrame(cells), uncovered="restrict")


def compare_learners(seed: int) -> dict[str, Score]:
    """Score the four ways to learn on one trial."""
    from threadpoolctl import threadpool_limits

    from unskew.bias import Strata
    from unskew.debiasing.pool_weights import debias
    from unskew.weigh.solved_weights import debias_weights

    trial = make_trial(seed)
    photos = trial.photos
    pool, target = pool_trial(trial)
    with warnings.catch_warnings():
        # Of twenty trials a few have one heavy image: their scores show what that costs.
        warnings.simplefilter("ignore", WeakOverlapWarning)
        estimated = debias(pool, Strata(["label", "light"]), target)
        oracle = debias_weights(trial.omega, trial.source, names=CAMERAS)
    with threadpool_limits(1):  # the matrices are so small that threads mostly wait for one another
        return {
            "naive (all images alike)": train_and_score(photos, trial.test),
            "debiased (omega estimated)": train_and_score(
                photos, trial.test, estimated.sample_weight
            ),
            "oracle (true omega)": train_and_score(photos, trial.test, oracle.sample_weight),
            "unbiased sample, same size": train_and_score(trial.unbiased, trial.test),
        }


def forecast_trial(seed: int) -> tuple[float, float]:
    """Forecast the gain of debiasing from the biased pictures alone: (overall, in the worst digit).

    It is about what `compare_learners` trains: logistic regression with weighted images.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    from unskew.bias import Strata
    from unskew.forecasting.gain import forecast_gain

    trial = make_trial(seed)
    pool, target = pool_trial(trial)
    with threadpool_limits(1):
        forecast = forecast_gain(
            pool,
            Strata(["label", "light"]),
            target,
            features=trial.photos.pixels,
            learner=LogisticRegression(max_iter=2000),
            way="weights",
            check=False,
            rng=seed,
            progress=False,
        )
    naive, debiased = forecast.arms
    return forecast.gain.value, debiased.worst.value - naive.worst.value


def mean_and_stderr(values: Sequence[float]) -> str:
    """Format shares as percentages: ``86.8 ± 0.9``."""
    percent = 100.0 * np.asarray(values)
    return f"{percent.mean():5.1f} ± {percent.std(ddof=1) / np.sqrt(percent.size):.1f}"


def describe_scores(
    scores: Sequence[dict[str, Score]], forecasts: Sequence[tuple[float, float]] = ()
) -> list[str]:
    """Format a table of accuracies, mean ± standard error over the seeds."""
    columns = ("accuracy", "worst_digit", "dim")
    title = f"accuracy in %, {len(scores)} seeds"
    lines = [f"{title:<30}{'all digits':>14}{'worst digit':>14}{'dim light':>14}"]
    for name in scores[0]:
        cells = [
            mean_and_stderr([getattr(score[name], column) for score in scores])
            for column in columns
        ]
        lines.append(f"{name:<30}" + "".join(f"{cell:>14}" for cell in cells))
    naive, debiased, *_ = scores[0]
    gains = [
        mean_and_stderr(
            [getattr(score[debiased], column) - getattr(score[naive], column) for score in scores]
        )
        for column in columns
    ]
    lines.append(f"{'gain: debiased - naive':<30}" + "".join(f"{gain:>14}" for gain in gains))
    if forecasts:
        predicted = [mean_and_stderr(gains) for gains in zip(*forecasts, strict=True)]
        lines.append(
            f"{'the same gain, as forecast':<30}" + "".join(f"{gain:>14}" for gain in predicted)
        )
    return lines


def measured_beside(forecast: Estimate, scores: dict[str, Score]) -> str:
    """Compare the gain forecast with that measured, in points: ``+6.6 ± 3.2, measured +6.5``."""
    naive, debiased, *_ = scores.values()
    measured = 100 * (debiased.accuracy - naive.accuracy)
    sentence = (
        f"Gain on the pictures above: forecast {100 * forecast.value:+.1f} ± "
        f"{100 * forecast.stderr:.1f}, measured {measured:+.1f} points."
    )
    return sentence.replace("-", "−")
