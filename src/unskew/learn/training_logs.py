"""The measures of each epoch: to a logger of Lightning by name, and as one plain line."""

from __future__ import annotations

import importlib.util
import inspect
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError, did_you_mean
from unskew.files.user_code import import_elsewhere, import_reference, names_function
from unskew.learn.presets import TrainSettings, settings_dict

# By name: the class, what it needs beyond Lightning, and what it is called with.
_LOCAL = {"name": "", "version": ""}
_LOGGERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "tensorboard": ("lightning.fabric.loggers:TensorBoardLogger", "tensorboard", _LOCAL),
    "csv": ("lightning.fabric.loggers:CSVLogger", "lightning", _LOCAL),
    "mlflow": ("lightning.pytorch.loggers:MLFlowLogger", "mlflow", {}),
    "wandb": ("lightning.pytorch.loggers:WandbLogger", "wandb", {}),
}
NO_LOGGER = "none"


class TrainingLogs:
    """Hands one point per epoch and measure to the logger that the settings name.

    Local logs are under ``folder``. What an earlier run logged is logged again from its history.
    ``folder`` None: nothing is logged.
    """

    def __init__(
        self, folder: Path | None, history: Sequence[dict[str, float]], settings: TrainSettings
    ) -> None:
        self._logger: Any = None
        if folder is None or settings.logger == NO_LOGGER:
            return
        shutil.rmtree(folder, ignore_errors=True)
        self._logger = _make_logger(folder, settings)
        for row in history:
            self.add(row)

    def add(self, row: Mapping[str, float]) -> None:
        """Add one epoch; names become groups: ``validation/accuracy``."""
        if self._logger is None:
            return
        measures = {
            _grouped(name): value for name, value in row.items() if name not in ("epoch", "seconds")
        }
        self._logger.log_metrics(measures, step=int(row["epoch"]))
        self._logger.save()

    def close(self) -> None:
        if self._logger is not None:
            self._logger.finalize("success")


def find_logger(name: str) -> Any:
    """Find the class of a logger by its name; None for "none".

    Raises ConfigError for an unknown name, for one whose package is not installed, and for what is
    no logger of Lightning: a file that names a class must not run anything else.
    """
    Logger = import_elsewhere("lightning.fabric.loggers.logger").Logger
    if name == NO_LOGGER:
        return None
    reference, package = _LOGGERS.get(name, (name, "", {}))[:2]
    known = [*_LOGGERS, NO_LOGGER]
    if not names_function(reference):
        raise ConfigError(
            f"logger is one of {', '.join(map(repr, known))}, or a logger class as module:Class, "
            f"such as 'lightning.pytorch.loggers:CSVLogger'; got {name!r}."
            f"{did_you_mean(name, known)}",
            option="logger",
            value=name,
            allowed=known,
        )
    if package and importlib.util.find_spec(package) is None:
        raise _missing(name, package)
    found_class = import_reference(reference, option="logger")
    if not isinstance(found_class, type) or not issubclass(found_class, Logger):
        raise ConfigError(
            f"logger {name!r} is no logger of Lightning: its class must be derived from "
            "lightning.fabric.loggers.Logger.",
            option="logger",
            value=name,
            allowed=known,
        )
    return found_class


def _make_logger(folder: Path, settings: TrainSettings) -> Any:
    """Make the logger: with the options of the settings, and its folder where it takes one."""
    kind = find_logger(settings.logger)
    taken = inspect.signature(kind).parameters
    _, _, usual = _LOGGERS.get(settings.logger, ("", "", {}))
    options: dict[str, Any] = dict(usual)
    options |= {name: str(folder) for name in ("root_dir", "save_dir") if name in taken}
    if not usual:
        # The folder of an arm has its name.
        options |= {name: folder.parent.name for name in ("run_name", "name") if name in taken}
    try:
        logger = kind(**{**options, **settings.logger_options})
        if not usual:
            with suppress(AttributeError, NotImplementedError):  # some loggers take measures only
                logger.log_hyperparams(settings_dict(settings))
    except ModuleNotFoundError as error:
        # Lightning's message names the package where the error does not.
        raise _missing(settings.logger, error.name or str(error)) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"logger {settings.logger!r} cannot be made with "
            f"{options | dict(settings.logger_options)}: {error}",
            option="logger_options",
            value=dict(settings.logger_options),
        ) from error
    return logger


def _missing(name: str, package: str) -> ConfigError:
    return ConfigError(
        f"logger {name!r} needs the package {package!r}, which is not installed: pip install "
        f"{package} (logger = {NO_LOGGER!r}: nothing is logged).",
        option="logger",
        value=name,
        package=package,
    )


def _grouped(name: str) -> str:
    for measure in ("accuracy_unweighted", "accuracy", "loss"):
        if name.endswith(f"_{measure}"):
            return f"{name.removesuffix(f'_{measure}')}/{measure}"
    return f"train/{name}"


def describe_epoch(row: Mapping[str, float], epochs: int) -> str:
    """Write one plain line on an epoch: loss, and what was judged, with the time that it took."""
    parts = [f"loss {row['train_loss']:.4f}"]
    for name, value in row.items():
        if name.endswith("_loss") and name != "train_loss":
            parts.append(f"{name.replace('_', ' ')} {value:.4f}")
        elif name.endswith("_accuracy"):
            parts.append(f"accuracy {100 * value:.1f} % ({name.removesuffix('_accuracy')})")
    return f"Epoch {int(row['epoch']) + 1} of {epochs}: {', '.join(parts)}; {row['seconds']:.1f} s."
