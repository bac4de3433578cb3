"""What was measured, one JSON object a line; a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Key = tuple[Any, ...]


class Results:
    """Records of one part, identified by the entries ``keys``; the last one counts. Several
    processes may add to one file.
    """

    def __init__(self, path: Path, keys: tuple[str, ...]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.keys = path, keys

    def read(self) -> dict[tuple[Any, ...], Record]:
        records: dict[tuple[Any, ...], Record] = {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                # The last line of a killed process may be cut short.
                if line.endswith("}"):
                    record = json.loads(line)
                    records[self.key(record)] = record
        return records

    def key(self, record: Record) -> tuple[Any, ...]:
        return tuple(record[name] for name in self.keys)

    def add(self, record: Record) -> None:
        """Append one line, by one write."""
        torn = (
            self.path.exists()
            and not self.path.read_bytes().endswith(b"\n")
            and self.path.stat().st_size > 0
        )
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if torn else "") + json.dumps(record) + "\n")

    def missing(self, wanted: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Those of ``wanted`` that do not exist yet, looked up each time: another process may
        have been faster.
        """
        for key in wanted:
            if key not in self.read():
                yield key


def by_seed(records: Mapping[Key, Record], setting: str, arm: str) -> dict[int, Record]:
    """Return the records of an arm on a setting, by seed."""
    return {
        key[1]: record for key, record in records.items() if key[0] == setting and key[2] == arm
    }


def seeds_text(seeds: Iterable[int]) -> str:
    """Write "0–3" or "0, 2"."""
    ordered = sorted(set(seeds))
    run = ordered == list(range(ordered[0], ordered[-1] + 1)) and len(ordered) > 2
    return f"{ordered[0]}–{ordered[-1]}" if run else ", ".join(map(str, ordered))
