"""`WeightedSampler`: weighted sampling for torch's DataLoader, also in distributed training."""

from __future__ import annotations

import hashlib
import itertools
import operator
import sys
from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from types import FrameType
from typing import Any

import numpy as np
import torch.distributed
from torch.utils.data.distributed import DistributedSampler

from unskew.engine.arguments import Count, CountOrZero, Seed, checked
from unskew.errors import ConfigError, DataError
from unskew.learn.sampling.sampling_schemes import Scheme, plan_draws
from unskew.learn.weights_by_id import align_by_id
from unskew.records import Ints

# Rows become Python's numbers in pieces of this size: 10⁸ at once would take 4 GB.
_PIECE = 2**16
# What shares batches among processes in Accelerate; its other loaders and samplers do not.
_ACCELERATE_READERS = {"BatchSamplerShard", "DataLoaderShard", "DataLoaderDispatcher"}


@checked
class WeightedSampler(DistributedSampler[int]):
    """Draws images in proportion to their weights, one draw per epoch for all processes together.

    Every process makes the same global draw of ``size`` images from (seed, epoch), and process r of
    R takes draws r, r + R, r + 2R, …: the union over processes is one weighted sample whatever R,
    up to ``size`` mod R trailing draws that are left out so that all have equally many. Lightning's
    Trainer and Fabric leave the sampler as it is, because it is a `DistributedSampler`. Accelerate,
    and with it Hugging Face's Trainer, distributes the batches of what it prepares: a sampler that
    it reads hands out the global draw.

    Facts: the expected number of times that image i appears is m·π_i, π_i = w_i/Σw, m = ``size``;
    "systematic": it is ⌊mπ_i⌋ or ⌈mπ_i⌉, so its variance is f(1 − f) with f the fraction of mπ_i,
    at most 1/4; "multinomial": its variance is mπ_i(1 − π_i); an image of weight zero is never
    drawn. A draw depends on (weights, size, scheme, seed, epoch) only.

    Parameters
    ----------
    weights : `Weights`, a table with id and weight, or a mapping id → weight, joined by ``ids``; or
        one number for every image of the dataset in its order (then without ``ids``). Their sum
        does not matter.
    ids : the id of every image of the dataset, in its order.
    size : m, how many images one epoch draws, all processes together. Default: as many as the
        dataset has.
    scheme : "systematic", or "multinomial": independent draws, as in the article (and torch's
        WeightedRandomSampler).
    replacement : False: no image appears twice in an epoch, i is included with probability min(1,
        c·π_i); ``size`` must be given.
    seed : with the epoch it decides the draw; the same in every process.
    num_replicas, rank : how many processes share the draw, and which of them this is. Default: as
        torch.distributed says when the epoch begins; 1 and 0 where it is not in use, or where
        Accelerate shares the batches out.
    allow_extra : weights of images that the dataset does not hold are left out instead of being an
        error.

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.learn import WeightedSampler
    >>> sampler = WeightedSampler([1.0, 0.0, 2.0, 1.0], size=8)
    >>> np.bincount(list(sampler)).tolist()
    [2, 0, 4, 2]
    """

    def __init__(
        self,
        weights: Any,
        ids: Iterable[Hashable] | None = None,
        *,
        size: Count | None = None,
        scheme: Scheme = "systematic",
        replacement: bool = True,
        seed: Seed = 0,
        num_replicas: Count | None = None,
        rank: CountOrZero | None = None,
        allow_extra: bool = False,
    ) -> None:
        # The base class is not initialised: it would ask torch.distributed, which may not have
        # started yet.
        self.weight = align_by_id(weights, ids, allow_extra=allow_extra)
        if not replacement and size is None:
            raise ConfigError(
                "without replacement an epoch that draws all images would ignore the weights: give "
                "size, how many it draws.",
                option="size",
            )
        self.size = self.weight.size if size is None else size
        self.scheme = scheme
        self.replacement = replacement
        self.seed = whole_number(seed, "seed")
        self._fixed_ranks = _fixed_ranks(num_replicas, rank)
        self._plan = plan_draws(self.weight, self.size, scheme, replacement=replacement)
        self.dataset: Any = range(self.weight.size)
        self.shuffle = True
        self.drop_last = True
        self.epoch = 0
        # Draws of this epoch that were used before a resume, all processes together.
        self._first = 0
        self._reading: _Reading | None = None
        self._resumed = False
        self._counted_from = 0

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """How many processes share the draw."""
        return self._ranks()[0]

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Which of them this process is."""
        return self._ranks()[1]

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """How many images this process, as any other, gets in an epoch: ⌊size/R⌋."""
        count = self.size // self.num_replicas
        if not count:
            raise DataError(
                f"an epoch of {self.size} images cannot be shared by {self.num_replicas} "
                "processes: raise size.",
                option="size",
                value=int(self.size),
                limit=self.num_replicas,
            )
        return count

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """How many images all processes together get in an epoch: size − (size mod R)."""
        return self.num_samples * self.num_replicas

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        """Iterate over the rows of this process.

        An epoch read to its end moves on to the next by itself, unless `set_epoch` is called.
        """
        return itertools.chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[Iterator[int]]:
        """Begin when the first row is asked for.

        Until then the epoch may be set, or a state loaded.
        """
        n_ranks, rank = self._ranks()
        epoch, first = self.epoch, self._first
        self._first = 0
        rest = self.draw_epoch(epoch)[first:]
        mine = rest[rank : rest.size - rest.size % n_ranks : n_ranks]
        reading = self._reading = _Reading(epoch, first, n_ranks)
        yield from reading.pieces(mine)
        if self._reading is reading:
            self._start(epoch + 1)

    def draw_epoch(self, epoch: CountOrZero) -> Ints:
        """Return the (size,) global draw of an epoch: rows of the dataset.

        The processes take them by turns, in this order.
        """
        return self._plan.draw(np.random.default_rng([self.seed, epoch]))

    def set_epoch(self, epoch: CountOrZero) -> None:
        """Set the epoch that the next iteration draws.

        A caller that counts from 0 again after `load_state_dict`, as Fabric's loaders do, goes on
        from the resumed epoch.
        """
        epoch = whole_number(epoch, "epoch")
        if self._resumed:
            self._resumed = False
            self._counted_from = self.epoch - epoch if epoch < self.epoch else 0
        epoch += self._counted_from
        if epoch != self.epoch:
            self._start(epoch)

    def state_dict(
        self, *, epoch: CountOrZero | None = None, consumed: CountOrZero | None = None
    ) -> dict[str, Any]:
        """Return the position in the epoch, the same in every process.

        `load_state_dict` goes on from there, on any number of processes.

        Parameters
        ----------
        epoch, consumed : the epoch, and how many of its images training has used (all processes
            together: batches × batch size × processes), where a DataLoader with workers reads ahead
            of the training. Default: what was read from the sampler. torchdata's StatefulDataLoader
            needs neither.
        """
        if (epoch is None) != (consumed is None):
            raise ConfigError(
                "give both epoch and consumed (images of that epoch that all processes together "
                "have used), or neither.",
                option="epoch" if epoch is None else "consumed",
            )
        if epoch is None or consumed is None:
            epoch, consumed = (
                (self.epoch, self._first)
                if self._reading is None
                else (self._reading.epoch, self._reading.consumed)
            )
        return {
            "epoch": whole_number(epoch, "epoch"),
            "consumed": whole_number(consumed, "consumed"),
            **self._identity,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on, from the next iteration, where ``state`` was taken.

        A state of other weights, size, scheme or seed is an error.
        """
        lacking = [name for name in ("epoch", "consumed", *self._identity) if name not in state]
        if lacking:
            raise DataError(
                f"this is not the state of a WeightedSampler: it lacks {', '.join(lacking)}.",
                value=lacking,
            )
        differing = [name for name, own in self._identity.items() if state[name] != own]
        if differing:
            shown = "; ".join(
                f"{name} {state[name]!r} there, {self._identity[name]!r} here" for name in differing
            )
            raise DataError(
                f"the state is that of another sampler, so the epoch cannot be continued: {shown}.",
                value=differing,
            )
        self._start(whole_number(state["epoch"], "epoch"))
        self._first = whole_number(state["consumed"], "consumed")
        self._resumed = True
        self._counted_from = 0

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What decides the draw, apart from the epoch."""
        fingerprint = hashlib.blake2b(self.weight.tobytes(), digest_size=8).hexdigest()
        settings = {
            "size": int(self.size),
            "scheme": self.scheme,
            "replacement": self.replacement,
            "seed": self.seed,
        }
        return {**settings, "weights": fingerprint}

    def _start(self, epoch: int) -> None:
        self.epoch, self._first, self._reading = epoch, 0, None

    def _ranks(self) -> tuple[int, int]:
        if self._fixed_ranks is not None:
            return self._fixed_ranks
        is_shared = torch.distributed.is_available() and torch.distributed.is_initialized()
        if is_shared and not _read_by_accelerate():
            return torch.distributed.get_world_size(), torch.distributed.get_rank()
        return 1, 0


class _Reading:
    """One pass over the rows of a process, which knows its position without counting every row."""

    def __init__(self, epoch: int, first: int, n_ranks: int) -> None:
        self.epoch = epoch
        self._before = first
        self._n_ranks = n_ranks
        self._read = 0
        self._piece: Iterator[int] = iter(())

    def pieces(self, rows: Ints) -> Iterator[Iterator[int]]:
        """Yield the rows in pieces, as Python's numbers."""
        for start in range(0, rows.size, _PIECE):
            piece = rows[start : start + _PIECE].tolist()
            self._read += len(piece)
            self._piece = iter(piece)
            yield self._piece

    @property
    def consumed(self) -> int:
        """Draws of the epoch that are used up, all processes together."""
        return self._before + (self._read - operator.length_hint(self._piece)) * self._n_ranks


def _read_by_accelerate() -> bool:
    """Tell whether a loader that Accelerate prepared asks, which shares the batches out itself.

    Nothing is told to a sampler about its readers, and one loop may use loaders of both kinds, so
    only the calls that led here know.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            reader = frame.f_locals.get("self")
            names = {kind.__name__ for kind in type(reader).__mro__}
            if names & _ACCELERATE_READERS:
                return True
        frame = frame.f_back
    return False


def whole_number(value: Any, name: str) -> int:
    """Return an option that counts from 0, or refuse it by name."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 0:
        raise ConfigError(
            f"{name} is a whole number, not negative; got {value!r}.", option=name, value=value
        )
    return operator.index(value)


def _fixed_ranks(num_replicas: int | None, rank: int | None) -> tuple[int, int] | None:
    if num_replicas is None and rank is None:
        return None
    if num_replicas is None or rank is None:
        raise ConfigError(
            f"num_replicas and rank belong together; got num_replicas={num_replicas!r}, "
            f"rank={rank!r}.",
            option="num_replicas" if num_replicas is None else "rank",
        )
    n_ranks, number = whole_number(num_replicas, "num_replicas"), whole_number(rank, "rank")
    if number >= n_ranks:
        raise ConfigError(
            f"rank counts from 0 to num_replicas − 1 = {n_ranks - 1}; got {number}.",
            option="rank",
            value=number,
            limit=n_ranks,
        )
    return n_ranks, number
