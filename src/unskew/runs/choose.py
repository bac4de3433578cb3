"""`unskew choose`: bias models ranked on the data of a configuration, the best written into a copy.

The candidates are the model of the configuration and others on the features that it names: what is
compared is how they model the selection, not which columns they read.
"""

from __future__ import annotations

import os
import re
import tomllib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from unskew.bias import Bias, Box, Product, Strata
from unskew.choosing.proposal import propose_candidates
from unskew.choosing.ranking import choose_bias
from unskew.config.families import AUTO
from unskew.config.run_config import RunConfig, write_config
from unskew.config.toml_text import read_toml_text, toml_document
from unskew.files.atomic import write_text
from unskew.records import Pool, Target
from unskew.runs.inputs import images_to_train_on, read_inputs

if TYPE_CHECKING:
    from unskew.choosing.choice import BiasChoice

_NOT_FITTED = {"family": "strata", "by": ["label"]}
_HEADER = re.compile(r"\s*\[{1,2}\s*\"?([A-Za-z0-9_-]+)")


def choose_for_run(config: RunConfig, *, progress: bool | None = None) -> BiasChoice:
    """Rank the bias models that suit a configuration on its images."""
    configured = None if config.bias["family"] == AUTO else config.read_bias()
    # "auto" would choose by itself; nothing is fitted while inputs are read.
    named = config if configured is not None else config.model_copy(update={"bias": _NOT_FITTED})
    inputs = read_inputs(named, progress=progress, beyond="sample")
    pool = images_to_train_on(inputs.pool)
    candidates = candidates_of(configured, pool, inputs.target)
    return choose_bias(pool, candidates, inputs.target, rng=config.engine.seed)


def candidates_of(configured: Bias | None, pool: Pool, target: Target | None) -> list[Bias]:
    """List the model of the configuration, and those that use what the target tells.

    With a sample of the target, or an unbiased source, those that `choose_bias` proposes; with
    margins or a table `Strata` of these attributes, alone and times a `Box` of the features (a
    `Tilt` would need images of the target); and `Box`.
    """
    own = [] if configured is None else [configured]
    features = [name for part in (configured.parts if configured else ()) for name in part.columns]
    numeric = [name for name in dict.fromkeys(features) if _is_numeric(pool, name)]
    others: list[Bias] = [Box(numeric)] if numeric else []
    if target is not None and target.kind in ("sample", "source"):
        proposed = propose_candidates(pool, target)
        others = [*proposed.values(), *others]
    elif target is not None and target.by:
        strata = Strata(list(target.by))
        kept = [name for name in numeric if name not in target.by]
        others = [strata, *([Product(strata, Box(kept))] if kept else []), *others]
    known = [str(one.to_dict()) for one in own]
    return own + [one for one in others if str(one.to_dict()) not in known]


def write_choice(choice: BiasChoice, config: RunConfig, source: Path, path: Path) -> None:
    """Write a copy of a configuration with the chosen ``[bias]``; comments elsewhere stay.

    In another folder the copy has all settings, resolved, and the folder that paths start from.
    """
    assert choice.best is not None
    bias = choice.best.to_dict()
    text = _with_section(read_toml_text(source), toml_document({"bias": bias}))
    same_folder = os.path.realpath(path.parent) == os.path.realpath(source.parent)
    if text is not None and same_folder:
        write_text(path, text)
    else:
        write_config(config.model_copy(update={"bias": bias}), path)


def default_path(source: str | PathLike[str]) -> Path:
    """Return the name of the copy: ``run-chosen.toml`` of ``run.toml``."""
    path = Path(source)
    return path.with_name(f"{path.stem}-chosen{path.suffix}")


def _with_section(text: str, section: str) -> str | None:
    """Return TOML text with another [bias]; None where that is not a section of its own."""
    lines = text.splitlines(keepends=True)
    owner, kept, at = "", [], None
    for line in lines:
        header = _HEADER.match(line)
        owner = header[1] if header else owner
        if owner != "bias":
            kept.append(line)
        elif at is None:
            at = len(kept)
    if at is None:
        return None
    made = "".join([*kept[:at], section.rstrip("\n") + "\n\n", *kept[at:]])
    try:
        new, old, wanted = (tomllib.loads(one) for one in (made, text, section))
    except tomllib.TOMLDecodeError:  # a header within a text of several lines
        return None
    return made if new == old | {"bias": wanted["bias"]} else None


def _is_numeric(pool: Pool, name: str) -> bool:
    return name in pool.frame.columns and pool.frame[name].dtype.kind in "fiu"
