"""Made-up summaries for the tests of the page: what a run might leave behind, drawn from a seed,
with nothing of the pipeline behind it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from unskew.report.page.html import render_page
from unskew.report.summary.outcome_record import OutcomeWithout
from unskew.report.summary.record import (
    BalanceRow,
    BiasPanel,
    Curve,
    DistributionPanel,
    FitRow,
    ForecastArm,
    ForecastClass,
    ForecastPanel,
    Gallery,
    Histogram,
    MixturePanel,
    MixtureRow,
    NotCorrectedPanel,
    OutcomePanel,
    OutcomeSource,
    OverlapPanel,
    SensitivityRow,
    SourceRow,
    SplitRow,
    Spread,
    StratumRow,
    Summary,
    Thumbnail,
    UnreadablePanel,
    VerdictPanel,
    WeightsPanel,
)

FIVE = ("Norrland meadow", "Norrland forest", "River bank", "Farm track", "Night camera")
SPECIES = ("roe deer", "red fox", "wild boar", "badger", "hare", "lynx", "wolf")
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "../../etc/passwd",
    "line one\nline two\r\ttabbed",
    "right\u202eto\u2066left",
    "n" * 300,
    "{{ 7 * 7 }}{% raw %}",
    "</title></style></script><b>bold",
    "lone \udc80 surrogate",
    "javascript:alert(3)",
)


def small_summary() -> Summary:
    """Five sources, a good overlap: the ordinary case."""
    return replace(make_summary(FIVE), forecast=forecast_panel())


def large_summary(sources: int = 50) -> Summary:
    """Fifty sources with names of ordinary length."""
    summary = make_summary(
        [f"site-{k:02d} {('ridge', 'valley', 'shore')[k % 3]}" for k in range(sources)],
        images=9_000,
        seed=3,
    )
    baselines = (
        "naive",
        "debiased",
        "one_source",
        "subsample",
        "class_balanced",
        "logit_adjustment",
        "density_ratio",
    )
    return replace(summary, forecast=forecast_panel([f"species {k}" for k in range(10)], baselines))


def weak_summary() -> Summary:
    """One link rests on four images."""
    summary = make_summary(FIVE, seed=5)
    assert summary.overlap is not None
    link = [list(row) for row in summary.overlap.link_count or ()]
    link[0][4] = 4.0
    message = (
        "The sources are linked, but only 4 images of Night camera could have been taken by "
        "Norrland meadow."
    )
    overlap = replace(
        summary.overlap,
        verdict="weak",
        message=message,
        link_count=tuple(map(tuple, link)),
        weakest_link=("Norrland meadow", "Night camera"),
        weakest_count=4.0,
    )
    verdict = replace(
        summary.verdict,
        level="weak",
        headline="These databases can be debiased, but the result hangs on four images.",
        sentences=(message, *summary.verdict.sentences[1:]),
        next_steps=(
            "Collect some 100 more images in which Norrland meadow and Night camera overlap.",
            *summary.verdict.next_steps,
        ),
    )
    strata = (*summary.strata, uncovered_stratum())
    forecast = replace(
        forecast_panel(),
        verdict="unclear",
        recommendation="unclear: +1.1 ± 0.9 points expected for a linear probe, worst class 31 → "
        "61 (wolf)",
        objection="The bias model does not describe the sources (p = 0.005): brightness of Night "
        "camera is off most.",
        fit_p_value=0.005,
    )
    return replace(
        summary,
        verdict=verdict,
        overlap=overlap,
        strata=strata,
        adjustments=("Weights above 20 were trimmed to 20: 14 images.",),
        forecast=forecast,
    )


def _mixture(sources: Sequence[SourceRow], species: Sequence[str]) -> MixturePanel:
    rows = tuple(MixtureRow(row.name, None, row.share, row.weight_share) for row in sources)
    classes = tuple(
        MixtureRow(row.source, kind, (row.pool or 0) / 2, (row.weighted or 0) / 3)
        for row in rows
        for kind in species[:3]
    )
    left = (("the strata of the target", 0.081), ("any group of images", 0.214))
    return MixturePanel(rows, classes, left)


def uncovered_stratum() -> StratumRow:
    """Target mass that nobody photographed."""
    return StratumRow("wolverine", 0.004, 0.003, 0.0, 0.0, 0, 0, (), None, None, covered=False)


def refused_summary() -> Summary:
    """Two islands of sources: no weights at all."""
    summary = make_summary(FIVE, seed=6)
    assert summary.overlap is not None
    parts = (FIVE[:3], FIVE[3:])
    split = [
        [value if (k < 3) == (other < 3) else 0.0 for other, value in enumerate(row)]
        for k, row in enumerate(summary.overlap.link_count or ())
    ]
    message = (
        "No image links Norrland meadow, Norrland forest, River bank with Farm track, Night camera."
    )
    overlap = replace(
        summary.overlap,
        verdict="disconnected",
        message=message,
        matrix=None,
        link_count=tuple(map(tuple, split)),
        common_mass=tuple(tuple(value / 4812 for value in row) for row in split),
        components=parts,
        weakest_link=None,
        weakest_count=None,
        kappa=None,
        spectral_gap=None,
        sigma2=None,
    )
    verdict = VerdictPanel(
        level="no",
        headline="These databases cannot be debiased together: no image links two groups of them.",
        sentences=(
            message,
            "Within each group the equations have a solution; between them any factor would do.",
        ),
        next_steps=(
            "Add a source that sees both groups, or images of day and night from one camera.",
            "Or debias each group by itself.",
        ),
        population="no population: there is no result",
        figures=(("Images", "4,812"), ("Sources", "5"), ("Groups without a link", "2")),
    )
    sources = tuple(
        replace(
            row,
            normalizer=None,
            stderr=None,
            stderr_bootstrap=None,
            weight_share=None,
            ess=None,
            ess_groups=None,
        )
        for row in summary.sources
    )
    strata = tuple(
        replace(row, weighted=None, ess=None, largest_weight=None) for row in summary.strata
    )
    return replace(
        summary,
        verdict=verdict,
        overlap=overlap,
        weights=None,
        sources=sources,
        strata=strata,
        balance=(),
        distributions=tuple(
            replace(each, weighted=tuple(None for _ in each.weighted))
            for each in summary.distributions
        ),
        galleries=(),
        bias=None,
        not_corrected=NotCorrectedPanel((), ("Nothing was corrected.",), ()),
        splits=(),
        outcomes=(),
        mixture=None,
    )


def private_summary() -> Summary:
    """Aggregates only: no pictures, ids or paths, small counts withheld."""
    summary = make_summary(FIVE[:3], seed=7)
    strata = (
        replace(summary.strata[0], images=None, groups=None, ess=None, largest_weight=None),
        *summary.strata[1:],
    )
    unreadable = UnreadablePanel(None, None, (("not an image", None),), ())
    return replace(
        summary, privacy="aggregate", galleries=(), strata=strata, unreadable=unreadable, copies=()
    )


def bare_summary() -> Summary:
    """One source, weights handed in as numbers: no strata, no bias model, no pictures, nothing to
    compare.
    """
    summary = make_summary(("only",), images=40, seed=9, columns=1)
    return replace(
        summary,
        strata=(),
        balance=(),
        distributions=(),
        not_corrected=NotCorrectedPanel((), (), ()),
        galleries=(),
        bias=None,
        splits=(),
        unreadable=UnreadablePanel(0, 0.0, (), ()),
        copies=(),
        target=(),
        provenance={},
        notes={},
        verdict=replace(summary.verdict, figures=(), next_steps=()),
    )


def hostile_summary() -> Summary:
    """Names that try to break out of the page, everywhere a name can stand."""
    summary = make_summary(HOSTILE, species=HOSTILE[:7], seed=8)
    bad = HOSTILE[0]
    galleries = tuple(
        replace(
            gallery,
            title=bad,
            note=HOSTILE[1],
            pictures=(
                *(
                    replace(
                        picture, id=HOSTILE[2], path=HOSTILE[k % 10], label=HOSTILE[(k + 1) % 10]
                    )
                    for k, picture in enumerate(gallery.pictures)
                ),
                Thumbnail("x", None, bad, None, 1.0, "https://example.org/tracker.png"),
                Thumbnail("y", None, bad, None, 1.0, "data:text/html,<script>alert(4)</script>"),
                Thumbnail(
                    "z", None, bad, None, 1.0, 'data:image/png;base64,AAAA" onerror="alert(5)'
                ),
            ),
        )
        for gallery in summary.galleries
    )
    texts = HOSTILE
    verdict = replace(
        summary.verdict,
        headline=HOSTILE[0] + " " + HOSTILE[5],
        sentences=texts,
        next_steps=texts,
        figures=tuple((text, text) for text in texts),
    )
    assert summary.bias is not None
    bias = replace(
        summary.bias,
        family=bad,
        assumed=texts,
        notes=texts,
        anchor=bad,
        parameters=tuple((text, text) for text in texts),
        fit_rows=tuple(FitRow(text, 0.5, text, text, 0.0) for text in texts),
        curves=tuple(
            replace(curve, feature=text)
            for text, curve in zip(texts, summary.bias.curves, strict=False)
        ),
    )
    forecast = replace(
        forecast_panel(HOSTILE[:7], ("naive", "debiased", *HOSTILE)),
        verdict=bad,
        recommendation=bad + HOSTILE[5],
        condition=bad,
        objection=HOSTILE[1],
        method=HOSTILE[6],
        notes=texts,
        learner=bad,
    )
    outcomes = tuple(
        replace(outcome_panel(text, HOSTILE, odd=bad), sentences=texts) for text in texts
    )
    return replace(
        summary,
        forecast=forecast,
        outcomes=outcomes,
        title=HOSTILE[7] + HOSTILE[5],
        verdict=verdict,
        bias=bias,
        galleries=galleries,
        distributions=tuple(
            replace(each, column=text)
            for text, each in zip(texts, summary.distributions, strict=False)
        ),
        balance=tuple(
            replace(row, column=text, level=text)
            for text, row in zip(texts, summary.balance, strict=False)
        ),
        unreadable=UnreadablePanel(
            1, 0.01, ((bad, 1),), ((bad, HOSTILE[1], HOSTILE[2], HOSTILE[3]),)
        ),
        copies=((bad, HOSTILE[1], 3),),
        adjustments=texts,
        target=texts,
        provenance={**summary.provenance, bad: bad, "settings": {bad: {HOSTILE[3]: list(texts)}}},
        notes={"sources": bad, "weights": HOSTILE[3]},
    )


def make_summary(
    names: Sequence[str],
    *,
    images: int = 4812,
    species: Sequence[str] = SPECIES,
    seed: int = 1,
    columns: int = 14,
) -> Summary:
    """A summary of ``images`` drawn images: each source has its own mix of species and its own
    taste for light.
    """
    rng = np.random.default_rng(seed)
    n_sources, n_species = len(names), len(species)
    source_n = np.sort(rng.choice(n_sources, size=images, p=rng.dirichlet(np.full(n_sources, 4.0))))
    mix_ky = rng.dirichlet(np.full(n_species, 1.5), size=n_sources)
    label_n = np.array([rng.choice(n_species, p=mix_ky[k]) for k in source_n])
    light_n = np.clip(rng.normal(0.35 + 0.3 * (source_n % 3) / 2, 0.16), 0, 1)
    target_y = rng.dirichlet(np.full(n_species, 3.0))
    weight_n = (target_y / np.maximum(np.bincount(label_n, minlength=n_species), 1))[
        label_n
    ] * np.exp(-1.2 * (light_n - 0.5))
    weight_n *= rng.lognormal(0, 0.25, size=images)
    weight_n /= weight_n.sum()
    group_n = np.arange(images) // 4
    sources = _sources(names, source_n, weight_n, group_n, rng)
    weights = _weights(names, species, source_n, label_n, weight_n, group_n)
    pool_y, weighted_y = (
        np.bincount(label_n, weights=w, minlength=n_species)
        for w in (np.full(images, 1 / images), weight_n)
    )
    return Summary(
        title="Camera traps of the northern region",
        privacy="full",
        verdict=_verdict(names, images, weights),
        sources=sources,
        strata=_strata(names, species, source_n, label_n, weight_n, target_y),
        overlap=_overlap(names, source_n, mix_ky, label_n),
        weights=weights,
        balance=_balance(species, pool_y, weighted_y, target_y, rng),
        distributions=_distributions(
            names, species, pool_y, weighted_y, target_y, light_n, weight_n, columns, rng
        ),
        not_corrected=_not_corrected(rng),
        galleries=_galleries(names, species, rng, 8 if len(names) <= 12 else 3),
        bias=_bias(names, rng),
        splits=(
            SplitRow("train", int(images * 0.8), images // 5, images * 0.5, ""),
            SplitRow(
                "test", images - int(images * 0.8), images // 20, images * 0.1, "not used to fit"
            ),
        ),
        unreadable=UnreadablePanel(
            7,
            7 / images,
            (("truncated file", 5), ("not an image", 2)),
            tuple(
                (f"{names[0]}/IMG_{k}.jpg", names[0], f"IMG_{k}.jpg", "truncated file")
                for k in range(5)
            ),
        ),
        mixture=_mixture(sources, species),
        copies=((names[0], names[-1], 12), (names[0], names[0], 3)),
        target=(
            f"The target is given by margins of label: {n_species} levels, from a survey of 400 "
            "animals.",
            "Its error enters every interval.",
        ),
        adjustments=(),
        provenance=_provenance(names),
        notes={
            "sources": "Asymptotic errors account for the estimation of ω; the bootstrap redrew "
            "images within sources 200 times."
        },
        outcomes=(
            outcome_panel("share of animals at night", names),
            outcome_panel("share of juveniles", names, odd=names[-1]),
        ),
    )


def outcome_panel(outcome: str, names: Sequence[str], odd: str | None = None) -> OutcomePanel:
    """A share of about 42% on which the sources agree, or all of them but ``odd``."""
    value = [0.42 + 0.01 * (k % 3) + 0.2 * (name == odd) for k, name in enumerate(names)]
    can_say = len(names) > 2
    new_source = ((0.21, 0.71) if odd else (0.38, 0.47)) if can_say else None
    heads: Any = "agreed" if odd is None else "new source" if can_say else "all sources"
    return OutcomePanel(
        outcome=outcome,
        is_share=True,
        value=0.43,
        stderr=0.01,
        level=0.95,
        agreed=(0.41, 0.45),
        new_source=new_source,
        heads=heads,
        interval={"agreed": (0.41, 0.45), "new source": new_source, "all sources": (0.38, 0.66)}[
            heads
        ]
        or (None, None),
        verdict="not compared" if len(names) < 2 else "disagree" if odd else "agree",
        sentences=("What the sources say.", "Why that interval comes first."),
        p_value=0.4,
        beyond_margin_p=0.7,
        between_sd=0.02,
        within_sd=None,
        margin=0.05,
        scale="logit",
        shared=1.0,
        odd_source=odd if can_say else None,
        by_source=tuple(
            OutcomeSource(name, at, 0.02, (at - 0.04, at + 0.04), 100, 1.0)
            for name, at in zip(names, value, strict=True)
        ),
        without=tuple(
            OutcomeWithout(name, 0.43, 0.01, 0.3, 0.1, odd not in (None, name)) for name in names
        )
        if can_say
        else (),
    )


def _verdict(names: Sequence[str], images: int, weights: WeightsPanel) -> VerdictPanel:
    return VerdictPanel(
        level="ok",
        headline="These databases can be debiased; the weighted pool is worth about half of its "
        "images.",
        sentences=(
            f"All {len(names)} sources are linked, the weakest link by 214 images.",
            "Every stratum of the target has images.",
            f"After weighting the {images:,} images are worth {weights.ess:,.0f} equally weighted "
            "ones.",
        ),
        next_steps=(
            "Train with the column sample_weight of weights.parquet.",
            "Look at the heaviest images below: each stands for many.",
            "Read “Not corrected” before you quote a number.",
        ),
        population="all animals of the northern region, as counted by the survey",
        figures=(
            ("Effective sample size", f"{weights.ess:,.0f} of {images:,} images"),
            ("Effective groups", f"{weights.ess_groups:,.0f} of {weights.groups:,}"),
            ("Weakest link", "214 images"),
            ("Target covered", "100%"),
            ("Largest weight", f"{weights.largest_sample_weight:.3g} average images"),
        ),
    )


def _kish(weight: np.ndarray) -> float:
    return (
        float(weight.sum() ** 2 / np.square(weight).sum()) if weight.size and weight.sum() else 0.0
    )


def _sources(
    names: Sequence[str],
    source_n: np.ndarray,
    weight_n: np.ndarray,
    group_n: np.ndarray,
    rng: np.random.Generator,
) -> tuple[SourceRow, ...]:
    rows = []
    for k, name in enumerate(names):
        mine = source_n == k
        error = float(rng.uniform(0.02, 0.15))
        rows.append(
            SourceRow(
                name=name,
                images=int(mine.sum()),
                groups=int(np.unique(group_n[mine]).size),
                share=float(mine.mean()),
                normalizer=float(rng.lognormal(-1, 0.6)),
                stderr=error,
                stderr_bootstrap=error * float(rng.uniform(0.9, 1.6)),
                weight_share=float(weight_n[mine].sum()),
                ess=_kish(weight_n[mine]),
                ess_groups=_kish(weight_n[mine]) / 3,
                unreadable=int(rng.integers(0, 4)),
                copies=int(rng.integers(0, 15)),
            )
        )
    return tuple(rows)


def _strata(
    names: Sequence[str],
    species: Sequence[str],
    source_n: np.ndarray,
    label_n: np.ndarray,
    weight_n: np.ndarray,
    target_y: np.ndarray,
) -> tuple[StratumRow, ...]:
    rows = []
    for y, name in enumerate(species):
        mine = label_n == y
        seen = tuple(names[k] for k in np.unique(source_n[mine]))
        largest = float(weight_n[mine].max(initial=0) * weight_n.size)
        rows.append(
            StratumRow(
                stratum=f"label = {name}",
                target=float(target_y[y]),
                target_stderr=float(np.sqrt(target_y[y] * (1 - target_y[y]) / 400)),
                pool=float(mine.mean()),
                weighted=float(weight_n[mine].sum()),
                images=int(mine.sum()),
                groups=int(mine.sum() // 4),
                sources=seen,
                ess=_kish(weight_n[mine]),
                largest_weight=largest,
                covered=bool(mine.any()),
            )
        )
    return tuple(rows)


def _overlap(
    names: Sequence[str], source_n: np.ndarray, mix_ky: np.ndarray, label_n: np.ndarray
) -> OverlapPanel:
    size = len(names)
    count_ky = np.array(
        [np.bincount(label_n[source_n == k], minlength=mix_ky.shape[1]) for k in range(size)]
    )
    near_kk = np.exp(-2.5 * np.abs(np.subtract.outer(np.arange(size) % 7, np.arange(size) % 7)) / 3)
    affinity_kk = (np.sqrt(mix_ky) @ np.sqrt(mix_ky).T) ** 4 * near_kk
    matrix = affinity_kk / affinity_kk.sum(axis=1, keepdims=True)
    sees_ky = mix_ky > 0.04
    link = np.array(
        [[float(count_ky[other][sees_ky[k]].sum()) for other in range(size)] for k in range(size)]
    ).round()
    common = np.minimum(link, link.T) / source_n.size
    off = link + np.diag(np.full(size, np.inf))
    k, other = np.unravel_index(np.argmin(np.where(off > 0, off, np.inf)), off.shape)
    return OverlapPanel(
        names=tuple(names),
        verdict="ok",
        message=f"All {size} sources are linked.",
        matrix=_rows(matrix),
        link_count=_rows(link),
        common_mass=_rows(common),
        components=(tuple(names),),
        weakest_link=(names[k], names[other]),
        weakest_count=float(link[k, other]),
        kappa=0.031,
        epsilon=0.0042,
        spectral_gap=0.213,
        sigma2=0.0178,
        thresholds={"weakest_count": 10.0, "sigma2": 10 / source_n.size},
    )


def _rows(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in matrix)


def _spread(name: str, sample_n: np.ndarray) -> Spread:
    if not sample_n.size:
        return Spread(name, 0, None, None, None, None, None, None)
    return Spread(
        name,
        int(sample_n.size),
        *map(float, np.quantile(sample_n, [0.05, 0.25, 0.5, 0.75, 0.95])),
        float(sample_n.max()),
    )


def _weights(
    names: Sequence[str],
    species: Sequence[str],
    source_n: np.ndarray,
    label_n: np.ndarray,
    weight_n: np.ndarray,
    group_n: np.ndarray,
) -> WeightsPanel:
    sample_n = weight_n * weight_n.size
    log_n = np.log10(sample_n)
    edges = np.linspace(np.floor(log_n.min() * 5) / 5, np.ceil(log_n.max() * 5) / 5, 31)
    ordered = np.sort(weight_n)[::-1].cumsum()
    shares = np.array([0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    ess = _kish(weight_n)
    return WeightsPanel(
        images=int(weight_n.size),
        groups=int(group_n.max() + 1),
        ess=ess,
        ess_groups=_kish(np.bincount(group_n, weights=weight_n)),
        design_effect=weight_n.size / ess,
        pareto_k=0.31,
        pareto_k_threshold=0.7,
        largest_sample_weight=float(sample_n.max()),
        top_percent_share=float(ordered[weight_n.size // 100]),
        zero_weights=18,
        histogram=Histogram(
            tuple(map(float, edges)),
            tuple(map(float, np.histogram(log_n, edges)[0])),
            {
                name: tuple(map(float, np.histogram(log_n[source_n == k], edges)[0]))
                for k, name in enumerate(names)
            },
        ),
        quantiles={
            f"{q:g}%": float(np.quantile(sample_n, q / 100)) for q in (1, 5, 25, 50, 75, 95, 99)
        },
        concentration=tuple(
            (float(x), float(ordered[max(int(x * weight_n.size) - 1, 0)])) for x in shares
        ),
        by_source=tuple(_spread(name, sample_n[source_n == k]) for k, name in enumerate(names)),
        by_label=tuple(_spread(name, sample_n[label_n == y]) for y, name in enumerate(species)),
    )


def _balance(
    species: Sequence[str],
    pool_y: np.ndarray,
    weighted_y: np.ndarray,
    target_y: np.ndarray,
    rng: np.random.Generator,
) -> tuple[BalanceRow, ...]:
    spread_y = np.sqrt(np.maximum(pool_y * (1 - pool_y), 1e-4))
    fitted = [
        BalanceRow(
            "label",
            name,
            True,
            float(pool_y[y]),
            float(weighted_y[y]),
            float(target_y[y]),
            float((pool_y - target_y)[y] / spread_y[y]),
            float((weighted_y - target_y)[y] / spread_y[y] * 0.1),
        )
        for y, name in enumerate(species)
    ]
    other = [
        ("temperature", None),
        ("snow", "yes"),
        ("flash", "infrared"),
        ("season", "winter"),
        ("season", "summer"),
    ]
    return (
        *fitted,
        BalanceRow("brightness", None, True, 0.52, 0.47, None, 0.0, -0.31),
        *(
            BalanceRow(
                column,
                level,
                False,
                0.42,
                0.37,
                0.35,
                float(rng.normal(0, 0.4)),
                float(rng.normal(0, 0.12)),
            )
            for column, level in other
        ),
    )


def _distributions(
    names: Sequence[str],
    species: Sequence[str],
    pool_y: np.ndarray,
    weighted_y: np.ndarray,
    target_y: np.ndarray,
    light_n: np.ndarray,
    weight_n: np.ndarray,
    columns: int,
    rng: np.random.Generator,
) -> tuple[DistributionPanel, ...]:
    by = {name: tuple(map(float, rng.dirichlet(np.ones(len(species))))) for name in names}
    panels = [
        DistributionPanel(
            "label",
            "label",
            True,
            (),
            tuple(species),
            *(tuple(map(float, each)) for each in (pool_y, weighted_y, target_y)),
            by_source=by,
            count=tuple(int(4000 * p) for p in pool_y),
        )
    ]
    edges = np.linspace(0, 1, 25)
    for k in range(columns - 1):
        value_n = np.clip(
            light_n if k == 0 else rng.normal(0.5, 0.05 + 0.2 * rng.uniform(), size=light_n.size),
            0,
            0.999,
        )
        pool, weighted = (
            np.histogram(value_n, edges, weights=w)[0]
            for w in (np.full(weight_n.size, 1 / weight_n.size), weight_n)
        )
        known = k % 3 == 0
        target = (
            tuple(
                map(
                    float,
                    np.histogram(
                        value_n, edges, weights=weight_n * rng.uniform(0.6, 1.4, size=weight_n.size)
                    )[0],
                )
            )
            if known
            else None
        )
        panels.append(
            DistributionPanel(
                ("brightness", "mean_hsv_h", "sharpness", "contrast", "noise")[k % 5]
                + (f"_{k}" if k > 4 else ""),
                "feature",
                k < 2,
                tuple(map(float, edges)),
                (),
                tuple(map(float, pool)),
                tuple(map(float, weighted)),
                target,
                missing=3 if k == 1 else 0,
            )
        )
    return tuple(panels)


def _not_corrected(rng: np.random.Generator) -> NotCorrectedPanel:
    names = [
        ("camera", "Reconyx"),
        ("camera", "Bushnell"),
        ("sharpness", None),
        ("noise", None),
        ("distance", None),
        ("hour", "night"),
    ]
    rows = tuple(
        BalanceRow(column, level, False, 0.31, 0.36, None, 0.0, float(rng.normal(0, 0.15)))
        for column, level in names
    )
    return NotCorrectedPanel(
        columns=rows,
        assumed=(
            "Within a species, each source is taken to select images at random.",
            "Animals that no camera can catch are outside of everything on this page.",
        ),
        sensitivity=tuple(
            SensitivityRow(
                outcome,
                factor,
                0.42,
                0.42 - 0.09 * (factor - 1),
                0.42 + 0.1 * (factor - 1),
                (0.40 - 0.09 * (factor - 1), 0.44 + 0.1 * (factor - 1)),
                "between strata",
            )
            for outcome in ("share of animals at night", "share of juveniles")
            for factor in (1.5, 2.0)
        ),
        not_shown=("file_name: every image has a value of its own.",),
    )


def picture_uri(rng: np.random.Generator, size: int = 56) -> str:
    """A made-up photograph: sky, ground and a blot."""
    from PIL import Image

    y, x = np.mgrid[0:size, 0:size] / size
    horizon, sun = rng.uniform(0.35, 0.7), rng.uniform(0.2, 0.8, size=2)
    sky, ground, blot = (
        rng.integers(60, 230, size=3),
        rng.integers(20, 120, size=3),
        rng.integers(30, 200, size=3),
    )
    picture = np.where(
        (y < horizon)[..., None],
        sky * (0.6 + 0.4 * y[..., None]),
        ground * (0.5 + 0.5 * y[..., None]),
    )
    picture = np.where((np.hypot(x - sun[0], y - sun[1]) < 0.13)[..., None], blot, picture)
    buffer = io.BytesIO()
    Image.fromarray(
        np.clip(picture + rng.normal(0, 6, picture.shape), 0, 255).astype(np.uint8)
    ).save(buffer, "JPEG", quality=70)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _galleries(
    names: Sequence[str], species: Sequence[str], rng: np.random.Generator, most: int = 8
) -> tuple[Gallery, ...]:
    pictures = [picture_uri(rng) for _ in range(12)]

    def row(kind: str, source: str | None, title: str, note: str, count: int = most) -> Gallery:
        shown = [
            Thumbnail(
                id=f"{source}/IMG_{k:04d}.jpg",
                path=f"cameras/{source}/2023/IMG_{k:04d}.jpg",
                source=source or names[k % len(names)],
                label=species[k % len(species)],
                sample_weight=float(rng.lognormal(1.5 if kind == "heaviest" else -2, 0.3)),
                picture=pictures[int(rng.integers(len(pictures)))],
            )
            for k in range(count)
        ]
        return Gallery(
            kind,
            source,
            title,
            note,
            tuple(
                sorted(
                    shown,
                    key=lambda each: -(each.sample_weight or 0) * (1 if kind == "heaviest" else -1),
                )
            ),
        )

    return (
        *(row("heaviest", name, name, "") for name in names),
        *(row("lightest", name, name, "") for name in names),
        row("one source only", names[0], names[0], "Lynx were caught here only."),
        row("copies", None, f"{names[0]} and {names[-1]}", "12 files are the same.", 4),
    )


def _bias(names: Sequence[str], rng: np.random.Generator) -> BiasPanel:
    at = np.linspace(0, 1, 41)
    curves = []
    for feature in ("brightness", "mean_hsv_h", "mean_hsv_s"):
        omega = {}
        for name in names:
            middle, width = rng.uniform(0.1, 0.9), rng.uniform(0.2, 0.5)
            values = np.clip(1.6 - np.abs(at - middle) / width, 0, 1)
            omega[name] = tuple(map(float, values / values.max()))
        curves.append(Curve(feature, tuple(map(float, at)), (), omega))
    levels = ("day", "dusk", "night")
    curves.append(
        Curve("time", (), levels, {name: tuple(map(float, rng.uniform(0, 1, 3))) for name in names})
    )
    return BiasPanel(
        family="Product(Strata(label), SoftBox(brightness, mean_hsv))",
        assumed=(
            "Selection depends on the species and on light and colour alone.",
            "Inside its box, a source takes every image alike.",
        ),
        estimated=("The edges of every source's box.", "How fast selection falls off beyond them."),
        anchor="the target's margin of label",
        notes=("lynx: seen by one source only.",),
        parameters=(("width of brightness", "0.21"), ("width of mean_hsv_h", "0.34")),
        curves=tuple(curves),
        fit_p_value=0.27,
        fit_message="The sources look as the model expects.",
        fit_rows=(
            FitRow("brightness", 0.27, names[0], "below 0.31", 0.012),
            FitRow("label", 0.61, names[-1], "red fox", -0.004),
            FitRow("noise", 0.0002, names[len(names) // 2], "above 4.1", 0.08),
        ),
    )


def forecast_panel(
    classes: Sequence[str] = SPECIES, arms: Sequence[str] = ("naive", "debiased", "class_balanced")
) -> ForecastPanel:
    """A gain of four points, most of it in the last class."""
    made = []
    for k, name in enumerate(arms):
        accuracy, gain = 0.78 + 0.02 * k, None if k == 0 else 0.06 - 0.02 * k
        made.append(
            ForecastArm(
                name=name,
                accuracy=accuracy,
                stderr=0.011,
                interval=(accuracy - 0.022, accuracy + 0.022),
                gain=gain,
                gain_stderr=None if gain is None else 0.008,
                gain_interval=(None, None) if gain is None else (gain - 0.016, gain + 0.016),
                worst_class=classes[-1],
                worst=0.31 + 0.3 * min(k, 1),
                worst_stderr=0.05,
                ess=4812.0 if k == 0 else 2204.0,
                way="half" if k == 1 else None,
                ridge=0.01,
            )
        )
    return ForecastPanel(
        verdict="reweight",
        recommendation="reweight: +4.0 ± 0.8 points expected for a linear probe, worst class 31 → "
        f"61 ({classes[-1]})",
        arms=tuple(made),
        classes=tuple(
            ForecastClass(
                name,
                1 / len(classes),
                90.0,
                (0.9 - 0.09 * k, *(0.9 - 0.04 * k for _ in arms[1:])),
                (0.03,) * len(arms),
            )
            for k, name in enumerate(classes)
        ),
        choice="half: no other way is better by more than one standard error.",
        images=4812,
        ess=2204.0,
        ess_units=780.0,
        design_effect=2.18,
        heavy_share=0.21,
        pareto_k=0.4,
        condition="All of this is conditional on the bias model (Strata, for the target).",
        objection=None,
        fit_p_value=0.4,
        method="Trained on 4 of 5 folds, scored on the one left out by the debiasing weights. ± is "
        "one standard error.",
        notes=("class_balanced is expected to do about as well.",),
        learner="a linear probe",
        asked=tuple(arms),
        learner_reference=None,
        asked_way=None,
    )


def _provenance(names: Sequence[str]) -> dict[str, Any]:
    return {
        "command": "unskew weigh run.toml -o out --seed 7",
        "time": "2024-05-17 09:30 UTC",
        "seed": 7,
        "versions": {"unskew": "0.1.0", "numpy": "2.1.0", "python": "3.11.9"},
        "fingerprints": {f"{name}": f"sha256:{k:064x}" for k, name in enumerate(names)},
        "settings": {
            "sources": {"manifest": "all.json", "source": "location", "group": "seq_id"},
            "target": {"unit": "group", "margins": {"label": {"file": "survey.csv", "n": 400}}},
            "bias": {"family": "strata", "by": ["label"]},
        },
    }


SAMPLES = {
    "five": small_summary,
    "fifty": large_summary,
    "weak": weak_summary,
    "refused": refused_summary,
    "private": private_summary,
    "hostile": hostile_summary,
    "bare": bare_summary,
}
PANELS = (
    *(
        "verdict",
        "outcomes",
        "sources",
        "strata",
        "overlap",
        "weights",
        "forecast",
        "balance",
        "distributions",
        "not-corrected",
        "bias",
    ),
    *("images", "adjustments", "provenance", "words"),
)


@cache
def page_of(name: str) -> str:
    """The page of one of the samples, made once."""
    return render_page(SAMPLES[name]())
