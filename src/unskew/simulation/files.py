"""A simulation as files: databases (a manifest or folders), their truth, and a configuration."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.config.toml_text import toml_key, toml_value
from unskew.engine.progress import show_progress
from unskew.errors import ConfigError, DataError
from unskew.files.atomic import folder_written_whole, write_text
from unskew.files.plain_json import write_json
from unskew.simulation.databases import Simulation, common_root, drawn_table
from unskew.sources.discovery import is_text

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["manifest", "folders"]
Link = Literal["hard", "symbolic", "copy"]
MANIFEST, CONFIGURATION = "manifest.csv", "run.toml"
TRUTH, TRUTH_RECORD, POPULATION = "truth.parquet", "truth.json", "population.parquet"
# Bytes of the longest label that its folder is named after; folders of others are class-3 etc.
_LONGEST = 100


def check_new_folder(out: Path, population: Path) -> None:
    """Raise an error if no simulation may be written there; call this before the work."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(
            f"{str(out)!r} exists already, and simulated databases overwrite nothing. Name another "
            "folder with -o.",
            path=str(out),
        )
    if population.is_dir() and population.resolve() in (out.resolve(), *out.resolve().parents):
        raise ConfigError(
            f"{str(out)!r} is inside {str(population)!r}, whose images are the population. Name a "
            "folder outside it with -o.",
            path=str(out),
        )
    if not out.absolute().parent.is_dir():
        raise ConfigError(
            f"{str(out)!r} cannot be written: there is no folder {str(out.absolute().parent)!r}. "
            "Create it first.",
            path=str(out),
        )


def write_simulation(
    simulation: Simulation,
    out: Path,
    *,
    form: Form = "manifest",
    link: Link = "hard",
    progress: bool | None = None,
) -> list[str]:
    """Write all files, or none if something fails, and return their names.

    ``form="manifest"`` copies nothing: one table lists the drawn images where they are.
    ``form="folders"`` makes a folder for each source, classes in subfolders, with a metadata.csv:
    by hard links, symbolic links or copies.
    """
    # Absolute, without links and without a slash at its end: ".." leads out of where a folder
    # really is, and so do the paths that are written.
    out = Path(os.path.realpath(out))
    with folder_written_whole(out) as folder:
        if form == "manifest":
            sources = _write_manifest(simulation, folder, out)
        else:
            sources = _write_folders(simulation, folder, out, link, progress)
        _write_truth(simulation, folder)
        write_text(folder / CONFIGURATION, _configuration(simulation, sources))
        return sorted(path.name for path in folder.iterdir())


def _write_manifest(simulation: Simulation, folder: Path, out: Path) -> dict[str, Any]:
    """Write one table of all drawn images; return the section ``[sources]``."""
    located = common_root(simulation.population)
    if located is None:
        raise ConfigError(
            "these images are not in files of their own, so that no manifest can list them. Use "
            "--as folders, which writes them into files.",
            option="as",
        )
    root, paths = located
    odd = next((path for path in (root, *paths) if not is_text(path)), None)
    if odd is not None:
        raise DataError(
            f"the name of {os.fsencode(odd)!r} is not UTF-8, so that no manifest can list it. "
            "Rename it, or use --as folders.",
            option="as",
        )
    table = drawn_table(simulation).drop(columns="image")
    table.insert(2, "path", np.array(paths, dtype=object)[simulation.index])
    table.to_csv(folder / MANIFEST, index=False, lineterminator="\n")
    return {"manifest": MANIFEST, "root": Path(os.path.relpath(root, out)).as_posix()}


def _write_folders(
    simulation: Simulation, folder: Path, out: Path, link: Link, progress: bool | None
) -> dict[str, Any]:
    """Write a folder for each source with its metadata.csv; return the section ``[sources]``."""
    table = drawn_table(simulation)
    classes = _class_folders(table)
    extension = _extensions(simulation)
    rows = zip(
        table["source"], classes, simulation.index.tolist(), simulation.repeat.tolist(), strict=True
    )
    # Numbered, not named: names may be too long, or equal in two folders, and the metadata say
    # which image it is.
    files = [
        os.path.join(source, *inner, f"{row:06d}-{m}{extension[row]}")
        for source, inner, row, m in rows
    ]
    with show_progress("Writing images", len(files), progress) as advance:
        for file, row in zip(files, simulation.index.tolist(), strict=True):
            _place_image(simulation, row, folder / file, out / file, link)
            advance(1)
    for name in simulation.names:
        own = table["source"] == name
        described = table[own].drop(columns="source")
        described.insert(
            0,
            "file_name",
            [os.path.relpath(file, name) for file, mine in zip(files, own, strict=True) if mine],
        )
        described.to_csv(folder / name / "metadata.csv", index=False, lineterminator="\n")
    settings: dict[str, Any] = {
        "folders": {name: name for name in simulation.names},
        "id": "id",
        "group": "group",
        "split": False,
    }
    return settings | ({"label": "label"} if "label" in table.columns else {"label": False})


def _class_folders(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """Name the subfolder of every row's class: the label, where a folder can have that name."""
    if "label" not in table.columns:
        return [()] * len(table)
    names = {
        label: _folder_name(label, at) for at, label in enumerate(dict.fromkeys(table["label"]))
    }
    # Where file names ignore case, two classes may share a folder; the metadata tell them apart.
    return [(names[label],) for label in table["label"]]


def _folder_name(label: Any, at: int) -> str:
    text = "" if label is None else str(label)
    good = (
        text.isprintable()
        and 0 < len(text.encode("utf-8", "replace")) <= _LONGEST
        and not set(text) & set('/\\:*?"<>|')
    )
    return text if good and text == text.strip(". ") else f"class-{at}"


def _extensions(simulation: Simulation) -> list[str]:
    images = simulation.population.images
    assert images is not None
    return [
        Path(images.place(row) or ".png").suffix if images.place(row) else ".png"
        for row in range(len(simulation.population))
    ]


def _place_image(simulation: Simulation, row: int, file: Path, final: Path, link: Link) -> None:
    images = simulation.population.images
    assert images is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    path = images.place(row)
    if path is None:
        _write_pixels(images.read(row), file)
        return
    real = os.path.realpath(path)
    try:
        if link == "symbolic":
            os.symlink(os.path.relpath(real, final.parent), file)
        elif link == "copy":
            shutil.copyfile(real, file)
        else:
            os.link(real, file)
    except OSError as error:
        if link == "copy" or error.errno not in (
            errno.EXDEV,
            errno.EPERM,
            errno.EMLINK,
            errno.ENOTSUP,
            errno.EACCES,
        ):
            raise
        raise DataError(
            f"{path} cannot be linked ({error.strerror}): hard links stay on one disk, and some "
            "systems allow none. Use --link copy.",
            option="link",
            value=link,
            path=str(path),
        ) from error


def _write_pixels(raw: Any, file: Path) -> None:
    from PIL import Image

    if isinstance(raw, bytes):
        file.write_bytes(raw)
    else:
        Image.fromarray(raw[..., 0] if raw.ndim == 3 and raw.shape[2] == 1 else raw).save(
            file, format="PNG"
        )


def _write_truth(simulation: Simulation, folder: Path) -> None:
    """Write what only a simulation knows: ω and weight of every image, normalizers, population."""
    scenario = simulation.scenario
    truth = drawn_table(simulation)[["id", "source", "image"]]
    omega_nk = scenario.omega
    truth = truth.assign(
        **{f"omega_{name}": omega_nk[:, k] for k, name in enumerate(simulation.names)},
        weight=simulation.true_weight,
    )
    truth.to_parquet(folder / TRUTH, index=False)
    population = simulation.population.frame
    kept = [name for name in population.columns if name not in ("source", "split", "content")]
    plain = population[kept].assign(id=population["id"].astype(str))
    if "label" in kept:
        plain["label"] = [None if label is None else str(label) for label in plain["label"]]
    plain.to_parquet(folder / POPULATION, index=False)
    record = {
        "scenario": simulation.kind,
        "description": scenario.description,
        "settings": dict(simulation.settings),
        "population": len(simulation.population),
        "sources": {
            name: {"images": int(size), "normalizer": float(value)}
            for name, size, value in zip(
                simulation.names, scenario.sizes, scenario.normalizer, strict=True
            )
        },
        "distinct_images": int(np.unique(simulation.index).size),
    }
    write_json(folder / TRUTH_RECORD, record)


def _configuration(simulation: Simulation, sources: dict[str, Any]) -> str:
    """Write a run.toml that is ready to debias the databases."""
    lines = [
        f"# Simulated databases ({simulation.kind}), written by `unskew simulate`: "
        f"{simulation.scenario.description}.",
        "#     unskew weigh run.toml -o results            one weight for every image",
        "#     unskew simulate compare . results           how close they come to the truth",
        "",
    ]
    sections = {
        "sources": sources,
        "represent": simulation.represent,
        "target": simulation.target,
        "bias": simulation.bias,
    }
    for name, section in sections.items():
        if section:
            lines += [f"[{name}]", *_lines(section), ""]
    lines += ["[engine]", f"seed = {simulation.settings['seed']}"]
    return "\n".join(lines) + "\n"


def _lines(section: Any, before: str = "") -> list[str]:
    """Write one value on a line: keys with dots rather than tables within tables."""
    lines = []
    for key, value in section.items():
        name = f"{before}{toml_key(str(key))}"
        lines += (
            _lines(value, f"{name}.")
            if isinstance(value, dict)
            else [f"{name} = {toml_value(value)}"]
        )
    return lines
