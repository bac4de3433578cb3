"""`WeightedDataset`: a dataset whose items are the draws of an epoch, for a sampler to shuffle."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset

from unskew.engine.arguments import Count, CountOrZero, Seed, checked
from unskew.errors import UnskewWarning
from unskew.learn.sampling.sampler import WeightedSampler, whole_number
from unskew.learn.sampling.sampling_schemes import Scheme
from unskew.learn.weights_by_id import align_to_dataset
from unskew.records import Ints

# Kept by the view itself; every other attribute is read from, and set on, the dataset.
_OWN = frozenset({"dataset", "_sampler", "_shared", "_drawn", "_is_warned"})
# Entries of the shared memory: the epoch, and how many items were read since it was set.
_EPOCH, _READ = 0, 1


@checked
class WeightedDataset(Dataset[Any]):
    """A view of a dataset whose item i is the i-th draw of the epoch, by weight.

    For frameworks that take a dataset and no sampler, or that put a sampler of their own in its
    place: whether they shuffle the items, or share them among processes, all items together are one
    weighted sample. The order of the items is random already. An ordinary loss belongs to it.

    Facts: as of `WeightedSampler`, which makes the draw: the expected number of times that image i
    appears in an epoch is m·π_i, π_i = w_i/Σw, m = ``size``; by default it is ⌊mπ_i⌋ or ⌈mπ_i⌉. The
    draw depends on (weights, size, scheme, seed, epoch) only, so that all processes agree on it.

    **Epochs.** `set_epoch` before each epoch draws other images; it reaches the workers of a
    DataLoader, persistent ones too. Without it every epoch repeats the first draw (a warning
    follows after items for two epochs). Accelerate's loaders call it, unless they use its seedable
    sampler in several processes; Lightning does not.

    **Attributes** of the dataset are those of the view, for reading and for setting (a framework
    may set ``transform``): ``targets`` and the like are in the order of the dataset, not of the
    draw. Methods that return a new dataset return it without the weights: make the view last.

    Parameters
    ----------
    dataset : any map-style dataset: ``len(dataset)`` and ``dataset[row]``. Its ``__getitems__``
        (several rows at once) is used if it has it.
    weights, ids, size, scheme, replacement, seed, allow_extra : as for `WeightedSampler`; the first
        two may also name columns of the dataset, if it has columns.

    Examples
    --------
    >>> from unskew.learn import WeightedDataset
    >>> view = WeightedDataset(["a", "b", "c"], [1.0, 0.0, 3.0], size=8)
    >>> len(view), sorted(view)
    (8, ['a', 'a', 'c', 'c', 'c', 'c', 'c', 'c'])
    """

    dataset: Any

    def __init__(
        self,
        dataset: Any,
        weights: Any,
        ids: str | Iterable[Hashable] | None = None,
        *,
        size: Count | None = None,
        scheme: Scheme = "systematic",
        replacement: bool = True,
        seed: Seed = 0,
        allow_extra: bool = False,
    ) -> None:
        weight_n = align_to_dataset(dataset, weights, ids, allow_extra=allow_extra)
        self.dataset = dataset
        self._sampler = WeightedSampler(
            weight_n, size=size, scheme=scheme, replacement=replacement, seed=seed
        )
        shared = torch.zeros(2, dtype=torch.int64)
        self._shared: Any = shared.share_memory_()  # type: ignore[no-untyped-call]
        self._drawn: tuple[int, Ints] | None = None
        self._is_warned = False

    def __len__(self) -> int:
        return int(self._sampler.size)

    def __getitem__(self, index: int) -> Any:
        (row,) = self._rows([index])
        return self.dataset[row]

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """Return several items; torch's DataLoader asks for a batch at once."""
        rows = self._rows(indices)
        together = getattr(self.dataset, "__getitems__", None)
        return together(rows) if callable(together) else [self.dataset[row] for row in rows]

    @property
    def epoch(self) -> int:
        """The epoch whose draw the items are."""
        return int(self._shared[_EPOCH])

    def set_epoch(self, epoch: CountOrZero) -> None:
        """Make the items the draw of another epoch, here and in the workers that read this view.

        Call it before the loader of the epoch is iterated: workers read ahead.
        """
        self._shared.copy_(torch.tensor([whole_number(epoch, "epoch"), 0]))
        if callable(forward := getattr(self.dataset, "set_epoch", None)):
            forward(epoch)

    def draw_epoch(self, epoch: CountOrZero) -> Ints:
        """Return the (size,) draw of an epoch: rows of the dataset, in the order of the items."""
        return self._sampler.draw_epoch(epoch)

    def _rows(self, indices: Sequence[int]) -> list[int]:
        """Translate items into rows of the dataset, by the draw of the epoch."""
        epoch = self.epoch
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = (epoch, self.draw_epoch(epoch))
        draw = self._drawn[1]
        rows = [int(draw[operator.index(index)]) for index in indices]
        self._shared[_READ] += len(rows)
        # Twice: a sampler may repeat items so that all processes get equally many.
        if not self._is_warned and self._shared[_READ] > 2 * draw.size:
            self._is_warned = True
            warnings.warn(
                f"more than {2 * draw.size} items of a WeightedDataset of {draw.size} were read "
                f"in epoch {epoch}: call set_epoch before each epoch, or all show the same images.",
                UnskewWarning,
                stacklevel=3,
            )
        return rows

    def __getattr__(self, name: str) -> Any:
        # Reached only for what the view lacks. Special names are never the dataset's, and while a
        # copy is made the view has no dataset yet.
        if name in _OWN or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.dataset, name, value)

    def __getstate__(self) -> dict[str, Any]:
        # Each process makes the draw itself, which is faster than sending it.
        return {**self.__dict__, "_drawn": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Sent to a worker, the memory stays shared; read from a file it is a copy.
        self._shared.share_memory_()
