"""List every figure: its number, its experiment, and the function that draws it.

Numbers are the article's; those with B are additions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper import acquisition_experiments as acquired
from paper import class_experiments as classes
from paper import digit_databases as digits
from paper import (
    drawn_acquisition,
    drawn_classes,
    drawn_digits,
    drawn_limits,
    drawn_theory,
    synthetic,
    theorem,
)
from paper import theorem_limits as limits
from paper.as_published import STEP_LENGTH
from paper.as_published import STEPS as PUBLISHED_STEPS
from paper.cifar_data import TITLES
from paper.experiment import Cell, Experiment
from unskew.solve.sgd import STEPS as ARTICLE_STEPS

RUNS = 8
# Of the theorem: draws for every n, in blocks that are computed apart; draws for every κ and ε.
_BLOCKS, _BLOCK = 5, 8
_OVERLAP_DRAWS = 100
# Raised when the same settings give other numbers than before.
_VERSION = 3
# What numbers depend on, apart from the values in the cells.
_OF_CLASSES = {
    "sources": classes.N_SOURCES,
    "steps": ARTICLE_STEPS,
    "published_steps": PUBLISHED_STEPS,
    "step_length": STEP_LENGTH,
}
_OF_ACQUISITION = {
    "ratio": acquired.RATIO,
    "bins": acquired.N_HISTOGRAM,
    "examples": acquired.EXAMPLES,
    "steps": ARTICLE_STEPS,
}
_OF_THEOREM = {"epsilon": theorem.EPSILON, "c_omega": theorem.C_OMEGA, "constant": theorem.CONSTANT}


@dataclass(frozen=True)
class Figure:
    """One picture with its table.

    Attributes
    ----------
    number : as in the article, or B1 … for those beyond it.
    slug : the name of its files.
    title : a caption.
    experiment : gives its rows, and perhaps those of other figures.
    table : which of the experiment's tables they are.
    draw : of the table as a data frame, and the folder of the data.
    say : the table in sentences.
    """

    number: str
    slug: str
    title: str
    experiment: Experiment = field(repr=False)
    table: str = field(repr=False)
    draw: Callable[[Any, Path | None], Any] = field(repr=False)
    say: Callable[[Any], list[str]] = field(repr=False)

    @property
    def shows_images(self) -> bool:
        """Whether it is computed from CIFAR."""
        return "data" in self.experiment.settings


def list_figures(
    fingerprints: Mapping[str, str],
    runs: int = RUNS,
    digit_folders: Mapping[str, Path] | None = None,
) -> list[Figure]:
    """List all figures of these data sets ({name: fingerprint}): the article's, then additions.

    ``digit_folders`` : folders of further digit databases, by name, for figure 1.
    """
    figures = [_first(digit_folders or {}, runs), *_theory(), *_limits()]
    for name, fingerprint in fingerprints.items():
        figures += _classes(name, fingerprint, runs) + _acquisition(name, fingerprint, runs)
    return sorted(figures, key=lambda figure: (figure.number.startswith("B"), figure.number))


def _experiment(name: str, compute: Any, cells: Sequence[Cell], **settings: Any) -> Experiment:
    return Experiment(name, {"version": _VERSION, **settings}, cells, compute)


def _plain(draw: Callable[[Any], Any]) -> Callable[[Any, Path | None], Any]:
    """Wrap a drawing function that needs no pixels."""
    return lambda frame, data: draw(frame)


def _first(folders: Mapping[str, Path], runs: int) -> Figure:
    """Return figure 1."""
    places = {
        name: str(folders[name].resolve()) if name in folders else ""
        for name in digits.names_of_databases(folders)
    }
    experiment = _experiment(
        "digits",
        digits.kinds_of_bias,
        [{"folders": "\n".join(f"{name}={place}" for name, place in places.items()), "runs": runs}],
        odd_share=digits.ODD_SHARE,
        small_part=digits.SMALL_PART,
        n=digits.N_TRAIN,
    )

    def draw(frame: Any, data: Path | None) -> Any:
        shown = [digits.read_digits(name, place or None) for name, place in places.items()]
        return drawn_digits.draw_digits(frame, shown)

    return Figure(
        "1",
        "figure-01-kinds-of-bias",
        f"Digit databases, and what weights bring for two kinds of bias, {runs} runs.",
        experiment,
        "accuracies",
        draw,
        drawn_digits.say_digits,
    )


def _theory() -> list[Figure]:
    supports = _experiment(
        "supports", synthetic.support_case, [{"case": case} for case in synthetic.CASES]
    )
    functions = _experiment("functions", synthetic.overlapping_functions, [{}])
    by_size = _experiment(
        "theorem-sizes",
        theorem.errors_by_size,
        list(
            classes.grid(
                n=theorem.SIZES[::-1],
                first=[_BLOCK * block for block in range(_BLOCKS)],
                draws=[_BLOCK],
            )
        ),
        **_OF_THEOREM,
    )
    by_overlap = _experiment(
        "theorem-overlaps",
        theorem.errors_by_overlap,
        list(
            classes.grid(
                constant=["kappa", "epsilon"], value=theorem.OVERLAPS, draws=[_OVERLAP_DRAWS]
            )
        ),
        n=theorem.N_OF_OVERLAPS,
    )
    drawn = drawn_theory
    return [
        Figure(
            "2",
            "figure-02-three-cases",
            "Three cases of support: not covered, covered without overlap, fine; one-dimensional "
            "data.",
            supports,
            "cases",
            _plain(drawn.draw_supports),
            drawn.say_supports,
        ),
        Figure(
            "3",
            "figure-03-two-biasing-functions",
            "Two overlapping biasing functions.",
            functions,
            "functions",
            _plain(drawn.draw_functions),
            drawn.say_functions,
        ),
        Figure(
            "B3",
            "beyond-3-theorem-n",
            "The theorem: error of the debiased risk against n.",
            by_size,
            "errors",
            _plain(drawn.draw_sizes),
            drawn.say_sizes,
        ),
        Figure(
            "B4",
            "beyond-4-theorem-overlap",
            "The theorem: error of the debiased risk against κ and ε.",
            by_overlap,
            "errors",
            _plain(drawn.draw_overlaps),
            drawn.say_overlaps,
        ),
    ]


def _limits() -> list[Figure]:
    """List figures B5 to B7, which show where the theorem's assumptions end."""
    first = [_BLOCK * block for block in range(_BLOCKS)]
    boxes = _experiment(
        "theorem-boxes",
        limits.box_errors,
        list(classes.grid(omega=["box", "soft"], n=limits.BOX_SIZES, first=first, draws=[_BLOCK])),
        boxes=limits.BOXES,
        decay=limits.DECAY,
    )
    rule = _experiment(
        "theorem-rule",
        limits.rule_risks,
        list(classes.grid(n=limits.RULE_SIZES, first=first, draws=[_BLOCK])),
        factors=limits.LABEL_FACTORS.tolist(),
        **_OF_THEOREM,
    )
    links = _experiment(
        "theorem-links",
        limits.missing_links,
        list(
            classes.grid(
                constant=["kappa", "epsilon"],
                value=limits.LINK_VALUES,
                n=limits.LINK_SIZES,
                draws=[_OVERLAP_DRAWS],
            )
        ),
    )
    drawn = drawn_limits
    return [
        Figure(
            "B5",
            "beyond-5-boxes",
            "Min–max boxes, for which assumption 3 never holds: error of the risk against n.",
            boxes,
            "errors",
            _plain(drawn.draw_boxes),
            drawn.say_boxes,
        ),
        Figure(
            "B6",
            "beyond-6-learned-rule",
            "The theorem: excess risk of a learned rule against n.",
            rule,
            "risks",
            _plain(drawn.draw_rule),
            drawn.say_rule,
        ),
        Figure(
            "B7",
            "beyond-7-links",
            "Draws that are not connected, against n, κ and ε.",
            links,
            "links",
            _plain(drawn.draw_links),
            drawn.say_links,
        ),
    ]


def _classes(name: str, fingerprint: str, runs: int) -> list[Figure]:
    """List figures 4, 5, 6 and B1 of one data set."""
    drawn, title, settings = drawn_classes, TITLES[name], {"data": fingerprint, **_OF_CLASSES}
    counts = _experiment(
        f"counts-{name}",
        classes.count_images,
        list(classes.grid(data=[name], overlap=classes.OVERLAPS_COUNTED)),
        **settings,
    )
    axes = {"data": [name], "run": range(runs)}
    masses = _experiment(
        f"masses-{name}",
        classes.class_masses,
        list(classes.grid(overlap=classes.OVERLAPS_SHOWN, **axes)),
        **settings,
    )
    swept = _experiment(
        f"distances-{name}",
        classes.weight_distances,
        list(classes.grid(overlap=classes.OVERLAPS_SWEPT, **axes)),
        **settings,
    )
    descents = _experiment(
        f"descents-{name}",
        classes.descent_errors,
        list(classes.grid(overlap=[0.001, 0.01, 0.1], data=[name], run=range(min(runs, 4)))),
        **settings,
    )
    return [
        Figure(
            "4",
            f"figure-04-images-per-class-{name}",
            f"Images of every class in the five databases, {title}.",
            counts,
            "counts",
            _plain(drawn.draw_counts),
            drawn.say_counts,
        ),
        Figure(
            "5",
            f"figure-05-class-distribution-{name}",
            f"Class distribution of the debiased sample, {runs} runs, {title}.",
            masses,
            "masses",
            _plain(drawn.draw_masses),
            drawn.say_masses,
        ),
        Figure(
            "6",
            f"figure-06-distance-of-weights-{name}",
            f"L2 distance of the weights from uniform ones, {runs} runs, {title}.",
            swept,
            "distances",
            _plain(drawn.draw_distances),
            drawn.say_distances,
        ),
        Figure(
            "B1",
            f"beyond-1-exact-solver-{name}",
            f"What the exact solver changes: error of the normalizers, {title}.",
            descents,
            "descents",
            _plain(drawn.draw_descents),
            drawn.say_descents,
        ),
    ]


def _acquisition(name: str, fingerprint: str, runs: int) -> list[Figure]:
    """List figures 7, 8, 9 and B2 of one data set."""
    drawn, title, settings = (
        drawn_acquisition,
        TITLES[name],
        {"data": fingerprint, **_OF_ACQUISITION},
    )
    alone: list[Cell] = [{"data": name}]
    examples = _experiment(f"examples-{name}", acquired.bin_examples, alone, **settings)
    sizes = _experiment(f"bin-sizes-{name}", acquired.bin_sizes, alone, **settings)
    cells = list(
        classes.grid(data=[name], sizes=acquired.SIZES, decay=acquired.DECAYS, run=range(runs))
    )
    channels = _experiment(f"channels-{name}", acquired.channel_marginals, cells, **settings)
    return [
        Figure(
            "7",
            f"figure-07-images-per-bin-{name}",
            f"Images of every bin of hue, saturation and value of the border, {title}.",
            examples,
            "examples",
            drawn.draw_examples,
            drawn.say_examples,
        ),
        Figure(
            "8",
            f"figure-08-hue-saturation-value-{name}",
            f"Hue, saturation and value of the debiased sample, {runs} runs, {title}.",
            channels,
            "marginals",
            _plain(drawn.draw_marginals),
            drawn.say_marginals,
        ),
        Figure(
            "9",
            f"figure-09-bin-sizes-{name}",
            f"Images in the bins: training split, balanced and imbalanced databases, {title}.",
            sizes,
            "sizes",
            _plain(drawn.draw_bin_sizes),
            drawn.say_bin_sizes,
        ),
        Figure(
            *(
                "B2",
                f"beyond-2-soft-box-{name}",
                f"The soft box against the box: distance of hue, saturation and value, {runs} "
                f"runs, {title}.",
            ),
            channels,
            "distances",
            _plain(drawn.draw_channel_distances),
            drawn.say_channel_distances,
        ),
    ]
