"""What several commands share: arguments, options, progress bars, the command as it was typed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from unskew.errors import ConfigError, CoverageError, OverlapError

if TYPE_CHECKING:
    from unskew.config.run_config import RunConfig
    from unskew.report.summary.record import Summary

Places = Annotated[
    list[Path],
    typer.Argument(
        metavar="FOLDER|FILE",
        show_default=False,
        help="Folders of images, one a source, or a table (CSV, Parquet, JSONL, COCO JSON, npz).",
    ),
]
Configuration = Annotated[
    Path,
    typer.Argument(
        metavar="RUN.TOML",
        show_default=False,
        help="The configuration, as `unskew init` writes it.",
    ),
]
Results = Annotated[
    Path,
    typer.Argument(
        metavar="RESULTS", show_default=False, help="The folder that `unskew weigh` wrote."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document for machines instead of text.")
]
AsMarkdown = Annotated[
    bool,
    typer.Option("--markdown", help="Print Markdown, for a pull request or the summary of a job."),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print only errors (and JSON), and show no progress bar."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Of everything random; overrides \\[engine] seed."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Cores to use; all of them by default.")
]
MostCells = Annotated[
    int | None,
    typer.Option(
        "--cells",
        min=1,
        show_default=False,
        help="With --to mixture: most cells. Default: weights in a cell differ by at most 5%.",
    ),
]
OneTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        show_default=False,
        help="Only this one of several targets (\\[targets.NAME]). Default: all in check, weigh "
        "and evaluate, else the first.",
    ),
]
OneEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        show_default=False,
        help="With sources.parquet: who computes blocks, local or dask; overrides \\[engine] name.",
    ),
]
Replicates = Annotated[
    int, typer.Option("--replicates", min=0, help="Bootstrap replicates behind the intervals.")
]
Download = Annotated[
    bool,
    typer.Option(
        "--download", help="Fetch a missing CIFAR archive from its home page, and check it."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        show_default=False,
        help="Where the paths of run.toml start, if the data have been moved since it was written.",
    ),
]
AllowCode = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-code",
        metavar="NAME",
        help="A module, or file of a network, next to the configuration or in the working "
        "directory that may run; an address that results name; repeatable.",
    ),
]
UseAnyway = Annotated[
    bool,
    typer.Option(
        "--force", help="Use the files also if they are not those that one run wrote (files.json)."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files or folders.")]


def shows_progress(quiet: bool, as_json: bool = False) -> bool | None:
    """Return None (a bar where there is a terminal), or False if nothing shall be printed."""
    return False if quiet or as_json else None


@dataclass(frozen=True)
class Common:
    """The options that many commands have; each takes some of them (`taking`)."""

    target: OneTarget = None
    engine: OneEngine = None
    overwrite: Overwrite = False
    force: UseAnyway = False
    as_json: AsJson = False
    as_markdown: AsMarkdown = False
    quiet: Quiet = False
    seed: Seed = None
    allow_code: AllowCode = None
    jobs: Jobs = None

    def __post_init__(self) -> None:
        if self.as_json and self.as_markdown:
            raise ConfigError("--json and --markdown are two forms of one output; choose one.")

    @property
    def bar(self) -> bool | None:
        """Whether to show progress, as `shows_progress` says."""
        return shows_progress(self.quiet, self.as_json or self.as_markdown)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The names of code that may run."""
        return tuple(self.allow_code or ())

    def load(self, configuration: Path, **changes: Any) -> RunConfig:
        """Read the settings of a file as these options change them."""
        from unskew.runs.inputs import load_config

        changes |= {"seed": self.seed, "jobs": self.jobs, "engine": self.engine}
        return load_config(configuration, target=self.target, allow_code=self.allowed, **changes)


Command = TypeVar("Command", bound=Callable[..., Any])


def taking(*names: str) -> Callable[[Command], Command]:
    """Give a command these options of `Common`, which it gets as its argument ``common``."""

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        shared = get_type_hints(Common, include_extras=True)
        parameters = [
            own.replace(annotation=hints[name])
            for name, own in inspect.signature(command).parameters.items()
            if name != "common"
        ]
        parameters += [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default,
                annotation=shared[one.name],
            )
            for one in fields(Common)
            if one.name in names
        ]

        @wraps(command)
        def run(**options: Any) -> Any:
            common = Common(**{name: options.pop(name) for name in names})
            return command(**options, common=common)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        del run.__wrapped__  # what it takes is not what the command takes
        return run  # type: ignore[return-value]

    return decorate


def written_command() -> str:
    """Return the command as it was typed, to be kept with its results."""
    import shlex

    return shlex.join(["unskew", *sys.argv[1:]])


def summary_of_refusal(error: OverlapError | CoverageError) -> Summary:
    """Return what the page of a refused run shows; an error of another step is raised again."""
    if error.summary is None:
        raise error
    summary: Summary = error.summary
    return summary
