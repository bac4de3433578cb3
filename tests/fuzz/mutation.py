"""Seeded mutants of a file: bytes damaged, or a JSON document whose parts no longer agree."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

# Values that numbers and texts of a document are replaced by.
_VALUES = (
    *(None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), "", "\x00", "é\ud800", "9" * 300),
    *([], {}, [[[]]], {"name": "x"}, "../mine", "a\nb", "=cmd|'/c'!A1", -0.5),
)


def mutants(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield ``count`` damaged copies, the same for the same seed; the empty file is the first."""
    rng = np.random.default_rng(seed)
    yield b""
    for _ in range(count - 1):
        mutant = bytearray(content)
        for _ in range(int(rng.choice([1, 1, 1, 2, 8]))):
            _damage(mutant, rng)
        yield bytes(mutant)


def _damage(mutant: bytearray, rng: np.random.Generator) -> None:
    at = int(rng.integers(len(mutant) + 1))
    # Headers and footers are where formats keep their lengths.
    if rng.random() < 0.5:
        near = int(rng.integers(min(64, len(mutant)) + 1))
        at = near if rng.random() < 0.5 else len(mutant) - near
    length = int(rng.choice([1, 2, 4, 16, 200]))
    kind = int(rng.integers(7))
    if kind == 0 and at < len(mutant):
        mutant[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del mutant[at:]
    elif kind == 2:
        del mutant[at : at + length]
    elif kind == 3:
        mutant[at:at] = rng.bytes(length)
    elif kind == 4:
        mutant[at : at + length] = bytes([int(rng.choice([0, 255, 127, 10]))]) * length
    elif kind == 5:
        mutant[at : at + length] = rng.bytes(length)
    else:
        mutant[at:at] = mutant[at : at + length]


def json_mutants(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield ``count`` documents with entries replaced, removed, repeated or exchanged."""
    rng, document = np.random.default_rng(seed), json.loads(content)
    for _ in range(count):
        mutant = copy.deepcopy(document)
        for _ in range(int(rng.choice([1, 1, 2, 5]))):
            _change(mutant, rng)
        yield json.dumps(mutant).encode()


def _change(document: Any, rng: np.random.Generator) -> None:
    parent = document
    while True:
        if not isinstance(parent, dict | list) or not parent:
            return
        key = list(parent)[int(rng.integers(len(parent)))] if isinstance(parent, dict) else None
        key = int(rng.integers(len(parent))) if key is None else key
        if not isinstance(parent[key], dict | list) or not parent[key] or rng.random() < 0.25:
            break
        parent = parent[key]
    kind = int(rng.integers(4))
    if kind == 0:
        parent[key] = copy.deepcopy(_VALUES[int(rng.integers(len(_VALUES)))])
    elif kind == 1:
        del parent[key]
    elif kind == 2 and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    elif isinstance(parent[key], str):
        parent[key] += "?"  # a name that the others do not know
    else:
        other = list(parent)[-1] if isinstance(parent, dict) else -1
        parent[key], parent[other] = parent[other], parent[key]
