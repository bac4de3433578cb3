"""The commands `unskew simulate …`: parsed here, computed elsewhere."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.error_messages import print_json, remarks
from unskew.cli.options import Common, Results, taking

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from unskew.records import Pool
    from unskew.simulation.databases import Simulation

simulate_app = typer.Typer(
    name="simulate",
    help="Biased databases with known truth, drawn from a clean one: rehearse on images of your "
    "own.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class Form(StrEnum):
    """What `unskew simulate` writes."""

    manifest = "manifest"
    folders = "folders"


class Link(StrEnum):
    """How images get into the folders of simulated databases."""

    hard = "hard"
    symbolic = "symbolic"
    copy = "copy"


Population = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|FILE",
        show_default=False,
        help="The clean database: a folder of images, classes in subfolders, or a table.",
    ),
]
NewFolder = Annotated[
    Path, typer.Option("--output", "-o", help="Folder to create; nothing is ever replaced.")
]
Sizes = Annotated[
    str | None,
    typer.Option(
        "--sizes",
        help="Images of all sources together, or of each: 5000,2500,500. Default: as many as the "
        "population has.",
    ),
]
Ratio = Annotated[
    float,
    typer.Option(
        "--ratio", help="Each source has this many times the images of the one before it."
    ),
]
As = Annotated[
    Form,
    typer.Option(
        "--as", help="A manifest that lists the images where they are, or a folder for each source."
    ),
]
LinkBy = Annotated[
    Link, typer.Option("--link", help="With --as folders: hard links, symbolic links, or copies.")
]
SimulationSeed = Annotated[int, typer.Option("--seed", min=0, help="Of the draw.")]


@simulate_app.command("overlapping-classes")
@taking("as_json", "quiet", "jobs")
def simulate_classes(
    population: Population,
    output: NewFolder,
    overlap: Annotated[
        float,
        typer.Option(
            "--overlap", help="Share of a source's images that show the next one's classes, 0 to 1."
        ),
    ] = 0.1,
    sources: Annotated[
        int, typer.Option("--sources", min=1, help="How many; must divide the number of classes.")
    ] = 5,
    sizes: Sizes = None,
    ratio: Ratio = 1.0,
    form: As = Form.manifest,
    link: LinkBy = Link.hard,
    seed: SimulationSeed = 0,
    *,
    common: Common,
) -> None:
    """Draw sources that show mostly classes of their own, and some of the next one's.

    This is section 4.2 of the article.
    """
    from unskew.simulation.databases import read_sizes, simulate_overlapping_classes

    def draw(pool: Pool) -> Simulation:
        return simulate_overlapping_classes(
            pool,
            overlap=overlap,
            n_sources=sources,
            sizes=read_sizes(sizes),
            ratio=ratio,
            seed=seed,
        )

    _simulate(population, output, draw, (), form, link, common)


@simulate_app.command("acquisition")
@taking("as_json", "quiet", "jobs")
def simulate_cameras(
    population: Population,
    output: NewFolder,
    decay: Annotated[
        float,
        typer.Option(
            "--decay",
            help="Distance from its bin at which a source sees nothing any more, above 0.",
        ),
    ] = 0.1,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--feature", help="What the bins are cut in; may be repeated. Default: border_hsv."
        ),
    ] = None,
    sizes: Sizes = None,
    ratio: Ratio = 1.0,
    form: As = Form.manifest,
    link: LinkBy = Link.hard,
    seed: SimulationSeed = 0,
    *,
    common: Common,
) -> None:
    """Draw sources that each see one bin of colours fully, and others less with distance.

    This is section 4.3 of the article.
    """
    from unskew.simulation.databases import read_sizes, simulate_acquisition

    named = tuple(features or ("border_hsv",))

    def draw(pool: Pool) -> Simulation:
        return simulate_acquisition(
            pool, decay=decay, features=named, sizes=read_sizes(sizes), ratio=ratio, seed=seed
        )

    _simulate(population, output, draw, named, form, link, common)


@simulate_app.command("censored")
@taking("as_json", "quiet", "jobs")
def simulate_hiding(
    population: Population,
    output: NewFolder,
    hidden: Annotated[
        list[str],
        typer.Option(
            "--hidden", help="A label that the large source never shows; may be repeated."
        ),
    ],
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            help="Images of both together, or of each: 45000,500. Default: all, 9 in 10 of them "
            "censored.",
        ),
    ] = None,
    form: As = Form.manifest,
    link: LinkBy = Link.hard,
    seed: SimulationSeed = 0,
    *,
    common: Common,
) -> None:
    """Draw a large source that never shows some labels, and a small unbiased one."""
    from unskew.simulation.databases import read_sizes, simulate_censored

    def draw(pool: Pool) -> Simulation:
        return simulate_censored(pool, hidden=hidden, sizes=read_sizes(sizes), seed=seed)

    _simulate(population, output, draw, (), form, link, common)


@simulate_app.command("compare")
@taking("as_json", "quiet")
def show_closeness(
    simulated: Annotated[
        Path,
        typer.Argument(
            metavar="SIMULATED", show_default=False, help="The folder that `unskew simulate` wrote."
        ),
    ],
    results: Results,
    *,
    common: Common,
) -> None:
    """Compare the weights of a run with the truth, and equal weights with it."""
    from unskew.cli import terminal
    from unskew.simulation.truth import compare_with_truth

    with remarks(common.quiet):
        comparison = compare_with_truth(simulated, results)
    if common.as_json:
        print_json(comparison.to_dict())
    else:
        terminal.print_lines(terminal.open_console(common.quiet), comparison.lines())


def _simulate(
    population: Path,
    output: Path,
    draw: Callable[[Pool], Simulation],
    features: tuple[str, ...],
    form: Form,
    link: Link,
    common: Common,
) -> None:
    """Read the population, draw, write, print."""
    from unskew.cli import terminal
    from unskew.files.locks import path_locked
    from unskew.simulation import files as simulated_files
    from unskew.simulation.databases import read_population

    progress = common.bar
    with path_locked(output), remarks(common.quiet):
        simulated_files.check_new_folder(output, population)
        pool = read_population(population, features=features, jobs=common.jobs, progress=progress)
        simulation = draw(pool)
        written = simulated_files.write_simulation(
            simulation, output, form=form.value, link=link.value, progress=progress
        )
    if common.as_json:
        print_json(_record(simulation, output, written))
    else:
        _print_simulation(terminal.open_console(common.quiet), simulation, output)


def _print_simulation(console: Console, simulation: Simulation, output: Path) -> None:
    from unskew.cli import terminal

    rows = [
        (name, terminal.number(size), f"{value:.4g}")
        for name, size, value in zip(
            simulation.names,
            simulation.scenario.sizes.tolist(),
            simulation.scenario.normalizer,
            strict=True,
        )
    ]
    terminal.print_table(
        console,
        f"{output}: {simulation.scenario.description}",
        ("source", "images", "true normalizer"),
        rows,
    )
    folder, results = shlex.quote(str(output)), shlex.quote(str(output / "results"))
    configuration = shlex.quote(str(output / "run.toml"))
    terminal.print_paragraph(
        console,
        f"Next: unskew weigh {configuration} -o {results}\nThen: unskew simulate compare {folder} "
        f"{results}",
    )


def _record(simulation: Simulation, output: Path, written: list[str]) -> dict[str, Any]:
    scenario = simulation.scenario
    return {
        "folder": str(output),
        "files": written,
        "scenario": simulation.kind,
        "settings": dict(simulation.settings),
        "sources": {
            name: {"images": int(size), "normalizer": float(value)}
            for name, size, value in zip(
                simulation.names, scenario.sizes, scenario.normalizer, strict=True
            )
        },
    }
