"""Where a run comes from: versions, settings, seed and fingerprints of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unskew.config.paths import named_inputs
from unskew.config.run_config import RunConfig, resolved
from unskew.files.fingerprints import find_versions, fingerprint_file, fingerprint_pool
from unskew.records import Pool
from unskew.runs.inputs import Inputs


def describe_origin(inputs: Inputs, command: str | None) -> dict[str, Any]:
    """Collect what somebody needs to compute the same results again."""
    config = inputs.config
    fingerprints: dict[str, Any] = {"pool": fingerprint_pool(inputs.pool)}
    if inputs.target is not None and isinstance(inputs.target.reference, Pool):
        fingerprints["target sample"] = fingerprint_pool(inputs.target.reference)
    files = {key: path for key, path in config.inputs.items() if path.is_file()}
    fingerprints["files"] = {key: fingerprint_file(path) for key, path in files.items()}
    if config.report.privacy == "aggregate":
        command = " ".join(Path(word).name for word in (command or "").split())
    return {
        "command": command or "",
        "seed": config.engine.seed,
        "versions": find_versions(),
        "settings": shown_settings(config),
        "fingerprints": fingerprints,
    }


def shown_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings as the page shows them, without the folder of the data."""
    settings = {name: values for name, values in resolved(config).items() if name != "folder"}
    if config.report.privacy != "aggregate":
        return settings
    paths = {path for _, path in named_inputs(settings)}
    return _without_folders(settings, paths)  # type: ignore[no-any-return]


def _without_folders(settings: Any, paths: set[str]) -> Any:
    """Keep the last part of each path only: the folders above may tell whose data these are."""
    if isinstance(settings, Mapping):
        return {key: _without_folders(value, paths) for key, value in settings.items()}
    if isinstance(settings, list):
        return [_without_folders(value, paths) for value in settings]
    is_path = isinstance(settings, str) and settings in paths
    return Path(settings).name if is_path else settings
