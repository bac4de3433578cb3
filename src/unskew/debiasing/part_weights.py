"""`PartWeights`: the weights of a pool over parts, which are never collected."""

from __future__ import annotations

import hashlib
import math
import weakref
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from unskew.debiasing.part_sums import (
    PassState,
    column_block,
    influence_block,
    influence_of_sample,
    mean_block,
    pull_block,
    strata_block,
)
from unskew.debiasing.part_weighers import (
    InMemoryWeigher,
    LogLinearWeigher,
    StrataWeigher,
)
from unskew.debiasing.part_writing import WriteState, output_schema, part_names, write_part
from unskew.engine.arguments import OpenShare, checked
from unskew.engine.written_blocks import OutputFile, write_files
from unskew.errors import ConfigError, DataError
from unskew.records import Estimate, Floats, Overlap, Pool, Solution, Weights
from unskew.records.solution import count_of
from unskew.weigh.sampling_units import degrees_of_freedom, student_estimate

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias, Description
    from unskew.debiasing.part_run import PartFit
    from unskew.weigh.effective_size import Diagnosis

# A stratum of no more images than this does not show its own spread (`unskew.weigh`).
_FEW, _PRIOR = 5, 2


@checked
class PartWeights(Weights):
    """One weight for every image of a pool over parts, written and summed block by block.

    ``ess``, ``mean(column)``, ``weigh(table)`` and ``to_parquet(folder)`` make one or two passes
    and collect nothing. What needs all weights in memory (a bootstrap, a sensitivity analysis)
    works on ``sampled``, the weights of the subsample that the model was fitted on.

    names, solution, overlap : as of `Weights`; the solution is exact, the verdict that of the
        subsample.
    images : number of images.
    source_share : (K,) share of the weight of each source.
    left_out : number of images of weight 0, by reason.
    passes : passes over the parts until the weights were known.
    n_sampled : images that the model was fitted on; 0 where counts were enough.
    """

    def __init__(self, fit: PartFit) -> None:
        for name, value in (
            *(("fit", fit), ("names", fit.pool.names), ("solution", fit.solution)),
            *(("overlap", fit.overlap), ("images", len(fit.pool)), ("passes", fit.passes)),
            *(("source_share", fit.source_share), ("left_out", fit.left_out)),
            *(("n_sampled", fit.n_sampled), ("estimation", None)),
        ):
            object.__setattr__(self, name, value)

    fit: PartFit
    images: int
    passes: int
    n_sampled: int
    source_share: Floats
    left_out: dict[str, int]
    solution: Solution
    overlap: Overlap

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(
            f"the weights of {self.images:,} images in {len(self.fit.pool.parts)} parts are not in "
            f"memory, so there is no {what}. weights.to_parquet(folder) writes them part by part; "
            "weights.sampled holds those of the subsample.",
            option=what,
            count=self.images,
        )

    @property
    def weight(self) -> Floats:
        """Refused: use ``to_parquet``, or ``sampled``."""
        self._refuse("weight")

    @property
    def id(self) -> Any:
        """Refused: use ``to_parquet``, or ``sampled``."""
        self._refuse("id")

    @property
    def source(self) -> Any:
        """Refused: use ``to_parquet``, or ``sampled``."""
        self._refuse("source")

    def __repr__(self) -> str:
        n = self.images
        return (
            f"Weights of {count_of(n, 'image')} in {count_of(len(self.fit.pool.parts), 'part')}\n"
            f"  effective number of images {self.ess:.1f} ({self.ess / n:.0%})\n"
            f"  overlap {self.overlap.verdict}; {self.passes} passes over the parts"
        )

    @property
    def ess(self) -> float:
        """Kish's effective number of images, 1/Σ_i π_i², over all images."""
        return 1.0 / float(self.fit.squares.sum())

    @cached_property
    def sampled(self) -> Weights:
        """The weights of the subsample, in memory: for tests, bootstrap, sensitivity, pages."""
        return self.fit.sampled()

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """ESS, design effect and share of weight per source of all images.

        The tail and the share of the heaviest are the subsample's; groups are not counted.
        """
        few, fit, n = self.sampled.diagnosis, self.fit, self.images
        ess_k = self.source_share**2 / np.maximum(fit.squares, 1e-300)
        rows = zip(
            few.by_source, fit.pool.sizes.tolist(), self.source_share.tolist(), ess_k.tolist(),
            strict=True,
        )  # fmt: skip
        by_source = tuple(
            replace(
                row,
                images=size,
                groups=None,
                share=size / n,
                weight_share=share,
                ess=ess,
                design_effect=size / ess if ess > 0 else math.inf,
                ess_groups=None,
            )
            for row, size, share, ess in rows
        )
        return replace(
            few,
            images=n,
            groups=None,
            ess=self.ess,
            design_effect=n / self.ess,
            ess_groups=None,
            design_effect_groups=None,
            largest_weight=fit.largest,
            largest_sample_weight=n * fit.largest,
            zero_weights=sum(self.left_out.values()),
            by_source=by_source,
        )

    def own_engine(self) -> None:
        """End the engine with these weights: nobody else uses it."""
        object.__setattr__(self, "_closing", weakref.finalize(self, self.fit.engine.close))

    def close(self) -> None:
        """End the engine that was started for these weights, and remove what it kept on disk."""
        if (closing := getattr(self, "_closing", None)) is not None:
            closing()

    def describe(self) -> Description:
        """Describe what the bias model assumed and estimated, and what was sampled for it."""
        described = self.fit.describe() if self.fit.describe is not None else None
        described = self.sampled.describe() if described is None else described
        if self.n_sampled in (0, self.images):
            return described
        few = f"a subsample of {self.n_sampled:,} of {self.images:,} images"
        note = (
            f"the model was fitted to {few}, which standard errors count; normalizers, weights and "
            "totals are those of all"
            if self.fit.is_held
            else f"features, verdict and tests are those of {few}; coefficients, normalizers, "
            "weights and totals those of all"
        )
        return replace(described, notes=(*described.notes, note))

    def weigh(self, table: Pool | pd.DataFrame) -> Floats:
        """Weigh new images without a new solve: (m,) n π(z), as ``sample_weight``."""
        if isinstance(self.fit.weigher, InMemoryWeigher):
            return self.sampled.weigh(table)
        from unskew.bias.features import check_columns

        frame = table.frame if isinstance(table, Pool) else table
        if isinstance(self.fit.weigher, StrataWeigher):
            check_columns(frame, self.fit.weigher.lookup.by)
        return self.images * self.fit.weigher.weigh_table(frame)

    def refit(self, pool: Pool) -> Weights:
        """Weigh a changed pool (a batch or a source more), fitted from where this fit ended."""
        return self.fit.again(pool, self.fit)

    def mean(  # type: ignore[override]
        self,
        values: str,
        predicted: Any = None,
        target_predicted: Any = None,
        *,
        level: OpenShare = 0.95,
    ) -> Estimate:
        """Estimate the target mean Σ_i π_i h_i of a column, over all images, with its error.

        The value is exact. The error is that of `Weights.mean` by streamed influence functions;
        groups multiply it by the design effect of the subsample, and a fit to the subsample adds
        its variance. ``weights.sampled.mean`` compares sources.

        Parameters
        ----------
        values : the name of a column of numbers.
        predicted, target_predicted : not for parts.
        level : coverage of the interval.
        """
        if predicted is not None or target_predicted is not None:
            raise ConfigError(
                "predictions are not read from parts; use weights.sampled.mean(values, predicted).",
                option="predicted",
            )
        fit = self.fit
        fit.pool.require([values])
        if isinstance(fit.weigher, InMemoryWeigher):
            return self.sampled.mean(self._column(values), level=level)
        first, _ = fit.engine.map_blocks(
            mean_block, fit.pool.blocks[:1], PassState(fit.reader, None, column=values)
        )[0]
        if isinstance(fit.weigher, StrataWeigher):
            mean, variance_s, size_s = self._mean_of_strata(values, first)
        else:
            mean, variance_s, size_s = self._mean_of_solve(values, first)
        effect = self._group_effect(values) if "group" in fit.pool.columns else 1.0
        if fit.is_held:
            variance_s = np.append(variance_s, self._fit_variance(values))
            size_s = np.append(size_s, self.n_sampled)
        freedom = degrees_of_freedom(variance_s, size_s)
        return student_estimate(mean, effect * math.sqrt(variance_s.sum()), freedom, level)

    def _column(self, column: str) -> Floats:
        """(n,) a column of a pool that is small enough to be in memory."""
        state = PassState(self.fit.reader, None, column=column)
        return np.concatenate(self.fit.engine.map_blocks(column_block, self.fit.pool.blocks, state))

    def _mean_of_strata(self, column: str, centre: float) -> tuple[float, Floats, Floats]:
        """Return the mean, and variance and size of every stratum and survey."""
        fit, weigher = self.fit, self.fit.weigher
        assert isinstance(weigher, StrataWeigher)
        assert fit.strata is not None
        state = PassState(fit.reader, weigher, column=column, centre=centre)
        sums = np.sum(fit.engine.map_blocks(strata_block, fit.pool.blocks, state), axis=0)
        count_c, mass_c, first_c, second_c, square_c, moved_c, spread_c = sums.T
        seen_c = mass_c > 0
        mean_c = np.divide(first_c, mass_c, out=np.zeros_like(mass_c), where=seen_c)
        mean = float(first_c.sum())
        # Σ π² (h − m)², with the leverage of an image its share of the stratum's weight.
        own_c = spread_c - 2 * mean_c * moved_c + mean_c**2 * square_c
        own_c = np.maximum(own_c, 0.0) * np.where(count_c > 1, count_c / (count_c - 1), 0.0)
        thin_c = seen_c & (count_c <= _FEW)
        size_c = np.where(thin_c, count_c + _PRIOR, count_c)
        if thin_c.any() and own_c.any():
            overall = float((second_c - 2 * mean * first_c + mean**2 * mass_c).sum())
            overall /= 1.0 - float(square_c.sum())
            left_c = np.maximum(count_c - 1.0, 0.0)
            blended_c = (left_c * own_c + _PRIOR * overall * square_c) / (left_c + _PRIOR)
            own_c = np.where(thin_c, np.maximum(own_c, blended_c), own_c)
        margin_e, freedom_e = self._margin_variances(np.where(seen_c, mean_c - mean, 0.0))
        return mean + centre, np.append(own_c, margin_e), np.append(size_c, freedom_e)

    def _mean_of_solve(self, column: str, centre: float) -> tuple[float, Floats, Floats]:
        """Return the mean, and variance and size of every source, by influence functions."""
        from unskew.bias.likelihood import solve_information

        fit, problem = self.fit, self.fit.problem
        assert problem is not None
        assert problem.last is not None
        assert isinstance(fit.weigher, LogLinearWeigher)
        state = PassState(fit.reader, fit.weigher, column=column, centre=centre)
        parts = fit.engine.map_blocks(pull_block, fit.pool.blocks, state)
        total_c2, plain_ckw, pulled_ckw = (
            np.sum(each, axis=0) for each in zip(*parts, strict=True)
        )
        mass_c, first_c = total_c2.T
        mean_c = np.divide(first_c, mass_c, out=np.zeros_like(mass_c), where=mass_c > 0)
        pull_ckw = np.zeros((problem.n_cells, problem.n_sources, plain_ckw.shape[2]))
        pull_ckw[:, : fit.weigher.n_kept] = mean_c[:, None, None] * plain_ckw - pulled_ckw
        gradient = pull_ckw[:, :, 0], pull_ckw[:, :, 1:].sum(axis=0)
        slope_ck, slope_kd, curved = solve_information(problem, problem.last, gradient)
        state = replace(state, mean_c=mean_c, slope_ck=slope_ck, slope_kd=slope_kd)
        parts = fit.engine.map_blocks(influence_block, fit.pool.blocks, state)
        if problem.sample is not None:
            parts.append(influence_of_sample(state, problem.sample))
        own = sum(part.own for part in parts)
        square_k, sum_k, moved_k, spread_k = np.sum([part.by_source for part in parts], axis=0).T
        size_k = problem.present_ck.sum(axis=0)
        mean_k = sum_k / size_k
        variance_k = spread_k - 2 * mean_k * moved_k + mean_k**2 * square_k
        variance_k = np.maximum(variance_k, 0.0) * size_k / np.maximum(size_k - 1.0, 1.0)
        if problem.sample is None:
            # The larger of the sandwich and the model-based variance counts, as in memory.
            model = own + max(curved, 0.0)
            variance_k = variance_k * max(1.0, model / max(float(variance_k.sum()), 1e-300))
        mean = float(first_c.sum() / mass_c.sum())
        margin_e, freedom_e = self._margin_variances(np.where(mass_c > 0, mean_c - mean, 0.0))
        return mean + centre, np.append(variance_k, margin_e), np.append(size_k, freedom_e)

    def _margin_variances(self, apart_c: Floats) -> tuple[list[float], list[float]]:
        """Return what errors of the strata's masses add to the variance of a mean, and their size.

        ``apart_c`` is how far the means of the strata are from that of all.
        """
        errors = () if self.fit.strata is None else self.fit.strata.errors
        variances = [max(float(apart_c @ one.covariance_cc @ apart_c), 0.0) for one in errors]
        return variances, [one.freedom + 1.0 for one in errors]

    def _group_effect(self, column: str) -> float:
        """Return how much groups multiply the error of this mean, as the subsample shows it."""
        few = self.sampled
        assert few.estimation is not None
        value_m = self.fit.draw([column]).frame[column].to_numpy(dtype=np.float64)
        rows = replace(few.estimation.rows, unit=None)
        alone = replace(
            few, group=None, group_names=None, unit=None,
            estimation=replace(few.estimation, rows=rows),
        )  # fmt: skip
        grouped, plain = few.mean(value_m).stderr, alone.mean(value_m).stderr
        return max(1.0, grouped / plain) if plain > 0 else 1.0

    def _fit_variance(self, column: str) -> float:
        """Return what the fit to the subsample adds to the variance of a mean.

        It is the variance of the subsample's mean less what that would be with the same ω, known;
        all of it with a sample of the target, whose noise is in the fit.
        """
        from unskew.bias.known import Known
        from unskew.bias.product import Product
        from unskew.bias.strata import Strata
        from unskew.debiasing.pool_weights import debias

        few = self.sampled
        assert few.estimation is not None
        fitted, drawn = few.estimation.fitted, self.fit.draw(None)
        value_m = drawn.frame[column].to_numpy(dtype=np.float64)
        variance = few.mean(value_m).stderr ** 2
        if fitted.data.sample is not None:
            return variance
        pool = drawn.take(fitted.row)
        model: Bias = Known(fitted.log_factors(pool.frame), log=True)
        if fitted.strata is not None:
            model = Product(Strata(fitted.strata.target.by), model)
        known = debias(pool, model, None if fitted.strata is None else fitted.target)
        return max(0.0, variance - known.mean(value_m[fitted.row]).stderr ** 2)

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the weights into a folder, one Parquet part for each part of the pool.

        The parts have the names and the order of rows of the pool's. A part is written completely
        or not at all, and one that is already complete is left alone: after a run that was stopped,
        this writes only what is missing. Columns: those of `Weights.to_parquet`.
        """
        self.write(Path(path))

    def write(self, folder: Path) -> list[dict[str, Any]]:
        """Write the parts; return rows, Σ π, bytes and SHA-256 of each."""
        if folder.is_file():
            raise ConfigError(
                f"{str(folder)!r} is a file; the weights of parts are written into a folder.",
                path=str(folder),
            )
        return write_files(
            self.fit.engine, write_part, self.output_files(), self.write_state(), folder
        )

    def write_state(self) -> WriteState:
        """Return what the parts are written from."""
        fit = self.fit
        return WriteState(fit.reader, fit.weigher, self.images, output_schema(fit.pool))

    def output_files(self) -> list[OutputFile]:
        """List the files that `to_parquet` writes."""
        pool, own = self.fit.pool, self.fit.weigher.fingerprint
        files = []
        for number, (part, name) in enumerate(zip(pool.parts, part_names(pool), strict=True)):
            blocks = tuple(block for block in pool.blocks if block.part == number)
            key = hashlib.sha256(f"{own} {part.path} {part.stamp}".encode()).hexdigest()
            files.append(OutputFile(name, key, blocks))
        return files
