"""A function of the user's own as a representation: ``module:function``."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError
from unskew.represent.base import Needs, Pixels, Representation


@dataclass(frozen=True)
class OwnFunction(Representation):
    """A function of the user's: ``function(images, **options)`` gives (m,) or (m, d) numbers.

    ``images`` are (m, h, w, 3) uint8, all of one size. The columns are named like the function:
    ``edges``, or ``edges_0``, ``edges_1`` … Values are remembered as long as the file of the
    function does not change; those of a lambda, a closure or a method are not remembered.

    Attributes
    ----------
    reference : ``module:function``.
    options : keyword arguments, as JSON.
    reduced : give it reduced copies (shorter side of at least 64 pixels) instead of the whole
        images.
    """

    reference: str
    options: str = "{}"
    reduced: bool = False
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_mapping(
        cls, reference: str, options: Mapping[str, Any], function: Callable[..., Any] | None = None
    ) -> OwnFunction:
        """Make the representation; options other than ``reduced`` go to the function."""
        rest = {key: value for key, value in options.items() if key != "reduced"}
        return cls(
            reference,
            json.dumps(rest, sort_keys=True),
            bool(options.get("reduced", False)),
            function or find_function(reference),
        )

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.reference.partition(":")[2].replace(".", "_")

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        return "reduced" if self.reduced else "pixels"

    @cached_property
    def _source(self) -> str:
        """A hash of the function's file; a unique value where the function depends on more.

        Lambdas, functions within functions and methods of objects depend on what they were made
        with, not only on their file.
        """
        try:
            named = find_function(self.reference)
            if self.function is not None and self.function is not named:
                return uuid.uuid4().hex
            file = inspect.getsourcefile(inspect.unwrap(named))
            with open(file or "", "rb") as source:
                return hashlib.blake2b(source.read(), digest_size=16).hexdigest()
        except (OSError, TypeError, ConfigError):
            return uuid.uuid4().hex

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.reference,
            "version": self._source,
            "options": self.options,
            "reduced": self.reduced,
        }

    def compute(self, batch: Pixels) -> npt.NDArray[Any]:
        function = self.function or find_function(self.reference)
        values = np.asarray(function(batch, **json.loads(self.options)))
        if (
            values.dtype.kind not in "fiub"
            or values.ndim not in (1, 2)
            or len(values) != len(batch)
        ):
            raise DataError(
                f"{self.reference} must return one row of numbers for each image, an array "
                f"({len(batch)},) or ({len(batch)}, d); got {values.dtype} of shape "
                f"{values.shape}.",
                value=list(values.shape),
            )
        return values.astype(np.float64).reshape(len(batch), -1)


def find_function(reference: str) -> Callable[..., Any]:
    """Find the function ``module:function``, or raise a `ConfigError` that says what is missing."""
    module_name, _, path = reference.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{reference!r}: the module {module_name!r} cannot be imported ({error}). It must be "
            "installed, or be in a folder of PYTHONPATH; is the name spelled right?",
            value=reference,
        ) from error
    for part in path.split("."):
        if not hasattr(target, part):
            raise ConfigError(
                f"{reference!r}: the module {module_name!r} exists, but has no {path!r}.",
                value=reference,
            )
        target = getattr(target, part)
    if not callable(target):
        raise ConfigError(
            f"{reference!r} is not a function but {type(target).__name__}.", value=reference
        )
    return target  # type: ignore[no-any-return]
