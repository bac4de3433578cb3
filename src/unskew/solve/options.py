"""The options of a solve: names, defaults, meaning and limits, for every function that solves.

`solve_normalizers`, `debias_weights` and `debias` take them as plain keywords, declared by
``**options: Unpack[SolverOptions]`` and shown in signature and docstring by `shows_options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

import numpy as np

from unskew.engine.arguments import Jobs, Numbers, OpenShare, Steps, checked
from unskew.engine.threads import available_jobs
from unskew.errors import ConfigError, did_you_mean, wrong_option
from unskew.records import Floats
from unskew.records.arrays import Randomness, seed_of
from unskew.solve.sgd import STEPS

P = ParamSpec("P")
R = TypeVar("R")

Method = Literal["newton", "fixed_point", "sgd"]

_MAX_STEPS = {"newton": 100, "fixed_point": 100_000, "sgd": STEPS}


class SolverOptions(TypedDict, total=False):
    """How the normalizers are found: plain keywords of every function that solves."""

    method: Method
    tol: OpenShare
    max_steps: Steps | None
    throw: bool
    jobs: Jobs | None


class OmegaOptions(SolverOptions, total=False):
    """The keywords of functions that are handed ω itself: how to read it and where to start."""

    log: bool
    names: Sequence[object] | None
    start: Numbers | None
    rng: Randomness


_MEANING = {
    "method": '"newton" (exact), "fixed_point" (Vardi\'s iteration, an independent check) or "sgd" '
    "(the\n        article's procedure).",
    "tol": "error of the log normalizers at which to stop.",
    "max_steps": 'default 100 for "newton", 100,000 for "fixed_point", 4,000 for "sgd".',
    "throw": "raise on failure; False returns the failed solution with its ``status`` instead.",
    "jobs": "threads (default: all cores).",
    "log": "ω is given by its logarithm (in a sparse matrix an entry that is not stored is ω = 0, "
    "not\n        log ω = 0).",
    "names": "names of the sources in the order of ω's columns (default: the columns of a "
    "DataFrame,\n        else the sorted names in ``source``).",
    "start": '(K,) u to start from (default: the solution of a subsample for "newton", a random '
    'draw\n        for "sgd").',
    "rng": 'an int or a NumPy Generator, for the subsample of "newton", the batches and the random '
    'start of "sgd".',
}


@checked
@dataclass(frozen=True, eq=False)
class Options:
    """The options of a solve with their defaults."""

    method: Method = "newton"
    tol: OpenShare = 1e-10
    max_steps: Steps | None = None
    throw: bool = True
    jobs: Jobs | None = None
    log: bool = False
    names: Sequence[object] | None = None
    start: Numbers | None = None
    rng: Randomness = 0

    def __post_init__(self) -> None:
        # A Generator is asked once: the options of a solve stay the same.
        object.__setattr__(self, "rng", seed_of(self.rng))
        if self.start_k is not None and not np.all(np.isfinite(self.start_k)):
            raise wrong_option(
                "start must hold finite numbers, one log(share/normalizer) for each source",
                start=self.start_k.tolist(),
            )

    @property
    def seed(self) -> int:
        """The seed: ``rng`` itself, or what a Generator gave."""
        return seed_of(self.rng)

    @property
    def most_steps(self) -> int:
        """Steps after which to stop."""
        return _MAX_STEPS[self.method] if self.max_steps is None else self.max_steps

    @property
    def start_k(self) -> Floats | None:
        """(K,) u to start from, or None."""
        return None if self.start is None else np.array(self.start, dtype=np.float64)

    @property
    def threads(self) -> int:
        """Number of threads."""
        return available_jobs() if self.jobs is None else self.jobs


def read_options(
    keywords: Mapping[str, Any], allowed: type = OmegaOptions, own: Sequence[str] = ()
) -> Options:
    """Return the options passed by keyword, checked; ``allowed``: `SolverOptions` or more.

    ``own`` are the keywords of the function itself, which a misspelt option may have meant.
    """
    known = (*own, *_names(allowed))
    unknown = [name for name in keywords if name not in known]
    if unknown:
        raise ConfigError(
            f"there is no option {unknown[0]!r}; there are "
            f"{', '.join(known)}.{did_you_mean(unknown[0], known)}",
            option=unknown[0],
            allowed=list(known),
        )
    return Options(**keywords)


def shows_options(allowed: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show a function's ``**options`` as the keywords that they are.

    They replace ``**options`` in its signature, and the line ``**options`` of its docstring.
    """
    default = {field.name: field.default for field in fields(Options)}
    shown = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default[name], annotation=annotation
        )
        for name, annotation in _names(allowed).items()
    ]
    meaning = "".join(f"    {name} : {_MEANING[name]}\n" for name in _names(allowed))

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        function.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        if function.__doc__:
            function.__doc__ = function.__doc__.replace("    **options\n", meaning)
        return function

    return decorate


def _names(allowed: type) -> dict[str, str]:
    """Return {option: its type, as written}."""
    return {name: kind.__forward_arg__ for name, kind in allowed.__annotations__.items()}
