"""Weights in parts, checked part by part: every one is computed again from its input."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from unskew.debiasing.part_weights import PartWeights
from unskew.debiasing.part_writing import WriteState, weights_of_block
from unskew.engine.written_blocks import OutputFile
from unskew.errors import DataError, first_few
from unskew.files.fingerprints import fingerprint_file
from unskew.files.plain_json import json_value
from unskew.files.reading import damage_named, read_json
from unskew.runs.differences import WEIGHT_TOLERANCE, Check, compare_values
from unskew.runs.output import PARTS_FILE, PARTS_FOLDER, SOLUTION, solution_record
from unskew.runs.part_inputs import describe_parts
from unskew.runs.pipeline import Run
from unskew.sources.part_pool import PartPool

# Sums of the same numbers in another order.
_SUMS, _RESIDUAL = 1e-9, 1e-9


def read_listing(folder: Path) -> list[dict[str, Any]]:
    """Read the parts that weights.json lists: name, rows, weight, bytes, sha256, input_bytes."""
    path = folder / PARTS_FILE
    with damage_named(path, "a list of parts"):
        parts = read_json(path)["parts"]
        for part in parts:
            name = part["name"]
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"{name!r} is outside of the folder")
            if not isinstance(part["rows"], int) or not isinstance(part["sha256"], str):
                raise TypeError("rows and checksums are missing")
    return list(parts)


def changed_parts(pool: PartPool, folder: Path) -> Iterator[str]:
    """Name the parts of the input that are not those of the run."""
    before = {part["name"]: (part["input_bytes"], part["rows"]) for part in read_listing(folder)}
    now = describe_parts(pool)
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            gone, new = name not in now, name not in before
            yield f"{name} {'is gone' if gone else 'is new' if new else 'has changed'}"


@dataclass(frozen=True)
class _Sums:
    """What one part was found to be: what is wrong with it, and sums over its rows."""

    problem: str
    worst: float = 0.0
    weight: float = 0.0
    square: float = 0.0


@dataclass(frozen=True)
class _State:
    write: WriteState
    folder: str
    sha256: dict[str, str]


def check_parts(run: Run, folder: Path) -> Iterator[Check]:
    """Check weights.json, every part of the weights, their sums, and solution.json."""
    weights = cast(PartWeights, run.weights.weights)
    claim = f"{PARTS_FILE} lists the parts of the weights"
    try:
        listing = read_listing(folder)
    except DataError as error:
        yield Check(claim, f"cannot be checked: {error}", False)
        return
    files = weights.output_files()
    own = [{"name": file.name, "rows": sum(map(len, file.blocks))} for file in files]
    yield compare_values(
        claim, [{"name": part["name"], "rows": part["rows"]} for part in listing], own
    )
    sha256 = {part["name"]: part["sha256"] for part in listing}
    state = _State(weights.write_state(), str((folder / PARTS_FOLDER).absolute()), sha256)
    sums_p = weights.fit.engine.map_blocks(check_part, files, state)
    wrong = [f"{file.name} {one.problem}" for file, one in zip(files, sums_p, strict=True)
             if one.problem]  # fmt: skip
    worst = max((one.worst for one in sums_p), default=0.0)
    claim = f"{PARTS_FOLDER}/ contains the weights that follow from the inputs"
    words = first_few(wrong) if wrong else f"the same in {len(files)} parts"
    yield Check(claim, words, not wrong, worst, tuple(wrong))
    yield from _check_totals(run, weights, sums_p, folder / SOLUTION)


def _check_totals(
    run: Run, weights: PartWeights, sums_p: list[_Sums], path: Path
) -> Iterator[Check]:
    claim, sums_claim = (
        f"{path.name} contains the solved equations",
        f"the weights of all parts sum to 1, with the effective size of {path.name}",
    )
    try:
        record = read_json(path)
        ess = float(record["ess"])
    except (DataError, KeyError, TypeError, ValueError) as error:
        yield Check(claim, f"cannot be checked: {error}", False)
        return
    squares = math.fsum(one.square for one in sums_p)
    again = {"sum": math.fsum(one.weight for one in sums_p), "ess": 1 / max(squares, 1e-300)}
    yield compare_values(sums_claim, {"sum": 1.0, "ess": ess}, again, relative=_SUMS)
    solution = solution_record(weights.sampled, run.inputs.bias, weights)
    solution = json.loads(json.dumps(json_value(solution), allow_nan=False))
    yield compare_values(claim, record, solution, absolute=_RESIDUAL)


def check_part(file: OutputFile, state: _State) -> _Sums:
    """Compute the weights of one part again, and compare them with those in its file."""
    path = Path(state.folder) / file.name
    try:
        if fingerprint_file(path) != state.sha256.get(file.name):
            return _Sums("is not the file that the run wrote")
        return _compare_part(file, path, state.write)
    except (OSError, DataError) as error:
        return _Sums(f"cannot be read: {error}")


def _compare_part(file: OutputFile, path: Path, state: WriteState) -> _Sums:
    worst, sums = 0.0, np.zeros(2)
    for block, written in zip(file.blocks, _written_blocks(file, path), strict=True):
        computed = weights_of_block(block, state)
        if not written.schema.equals(computed.schema):
            return _Sums("has other columns")
        other = [
            name
            for name in computed.column_names[:-2]
            if not written[name].combine_chunks().equals(computed[name].combine_chunks())
        ]
        if other:
            return _Sums(f"has other values of {first_few(other)} in rows {block.start} on")
        for name in computed.column_names[-2:]:
            own_n, new_n = written[name].to_numpy(), computed[name].to_numpy()
            apart_n = np.abs(own_n - new_n) / np.maximum(np.abs(new_n), 1e-300)
            worst = max(worst, float(apart_n.max(initial=0.0)))
        own_n = written["weight"].to_numpy()
        sums += own_n.sum(), own_n @ own_n
    problem = f"has weights that differ by {worst:.1e}" if not worst <= WEIGHT_TOLERANCE else ""
    return _Sums(problem, worst, *sums.tolist())


def _written_blocks(file: OutputFile, path: Path) -> Iterator[Any]:
    """Yield the rows of a written part, cut as its input is; one block at a time in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with damage_named(path, "a table of weights", silent=False), pq.ParquetFile(path) as opened:
        batches = opened.iter_batches()
        held = opened.schema_arrow.empty_table()
        for size in map(len, file.blocks):
            while held.num_rows < size:
                more = next(batches, None)
                if more is None:
                    raise DataError(f"{path} has fewer rows than its input.", path=str(path))
                held = pa.concat_tables([held, pa.Table.from_batches([more])])
            yield held.slice(0, size)
            held = held.slice(size)
        if held.num_rows or next(batches, None) is not None:
            raise DataError(f"{path} has more rows than its input.", path=str(path))
