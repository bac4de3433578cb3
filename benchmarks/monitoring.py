"""False alarms and power of `unskew monitor` over years of daily looks.

    python -m benchmarks.monitoring --jobs 2   # a few minutes of one core
    python -m benchmarks.monitoring --years 60

Every world is a year of 365 daily looks, drawn ``--years`` times. Ranks, bettors and shares of the
5% are those of `unskew.monitoring`; only the sum over bettors at every look is compiled here, and
compared with the package's own before anything is printed. In a null world nothing changes, and
the share of years with an alarm, of any variable of any source at any look, must not exceed 5%.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

import numba
import numpy as np

from unskew.monitoring import change_evidence as bets
from unskew.monitoring.change_evidence import log_rank_evidence, log_share_evidence, start_weights
from unskew.monitoring.conformal_ranks import count_cells, rank_in_turn
from unskew.monitoring.judgement import FALSE_ALARMS
from unskew.records.arrays import Floats, Ints

DAYS = 365
# (old values, new values of the year) of one variable of one source.
Stream = tuple[np.ndarray, np.ndarray]
# What one year of a world is: variables[source][variable], and units a day, or the day of every new
# unit of each source.
Year = tuple[list[list[Stream]], int | list[Ints]]


@numba.njit(cache=True)
def _path(bin_tb, first_p, last_p, kind_b, table_aw, log_width_b, tilt_te, share_m, start_t):  # type: ignore[no-untyped-def]
    """Compute (T,) log E_t; all inputs are sums since the first look, with a row of zeros first."""
    looks = bin_tb.shape[0] - 1
    path_t = np.empty(looks)
    n_tilts, all_bins = tilt_te.shape[1], table_aw.shape[1] - 1
    kept = 1.0
    for t in range(1, looks + 1):
        kept -= start_t[t - 1]
        total = max(kept, 1e-300)
        for s in range(t):
            at = 0
            capital = 0.0
            for p in range(first_p.size):
                n, width = 0, 0.0
                for b in range(first_p[p], last_p[p]):
                    count = bin_tb[t, b] - bin_tb[s, b]
                    n += count
                    width += count * log_width_b[b]
                for a in range(table_aw.shape[0]):
                    log_m = -table_aw[a, all_bins, n] - width
                    for b in range(first_p[p], last_p[p]):
                        log_m += table_aw[a, kind_b[b], bin_tb[t, b] - bin_tb[s, b]]
                    capital += share_m[at] * math.exp(min(log_m, 600.0))
                    at += 1
            for e in range(n_tilts):
                log_m = tilt_te[t, e] - tilt_te[s, e]
                capital += share_m[at] * math.exp(min(log_m, 600.0))
                at += 1
            total += start_t[s] * capital
        path_t[t - 1] = math.log(total)
    return path_t


def evidence_path(count_tc: Ints) -> Floats:
    """Compute (T,) log E_t at every look from (T, 64) counts of ranks."""
    edges = bets._EDGES
    widths = [np.diff(one) / bets.CELLS for one in edges]
    bins = [np.add.reduceat(count_tc, one[:-1], axis=1) for one in edges]
    size = [len(one) for one in widths]
    last = np.cumsum(size)
    width_b = np.concatenate(widths)
    width_w, kind_b = np.unique(width_b, return_inverse=True)
    table = _tables(int(count_tc.sum()).bit_length(), tuple(width_w.tolist()))
    density = bets._densities()
    n_bins = len(edges) * len(bets._CONCENTRATIONS)
    share = np.array([0.5 / n_bins] * n_bins + [0.5 / density.shape[1]] * density.shape[1])
    return np.asarray(
        _path(
            _summed(np.concatenate(bins, axis=1)),
            last - np.array(size),
            last,
            kind_b,
            table,
            np.log(width_b),
            _summed(count_tc @ np.log(density)),
            share,
            start_weights(count_tc.shape[0])[0],
        )
    )


@cache
def _tables(bits: int, width_w: tuple[float, ...]) -> Floats:
    """(A, W + 1, 2^bits) log Γ(c + a)/Γ(a) for every width of a bin, and for the total."""
    return np.stack(
        [
            np.stack([bets._log_rises(bits, total * width) for width in (*width_w, 1.0)])
            for total in bets._CONCENTRATIONS
        ]
    )


def _summed(value_tb: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros_like(value_tb[:1]), value_tb.cumsum(axis=0)])


def check_compiled(rng: np.random.Generator) -> None:
    """Compare the compiled sum with the package's own at some looks."""
    count_tc = rng.poisson(0.3, (80, bets.CELLS))
    count_tc[50:, :8] += rng.poisson(1.0, (30, 8))
    path_t = evidence_path(count_tc)
    for look in (1, 2, 50, 60, 80):
        own = float(log_rank_evidence(count_tc[:look])[0])
        assert abs(path_t[look - 1] - own) < 1e-8 * max(1.0, abs(own)), (
            look,
            path_t[look - 1],
            own,
        )


def every_day(per_day: int) -> Ints:
    """Return the day of every unit."""
    return np.repeat(np.arange(DAYS), per_day)


def day_counts(stream: Stream, day: Ints, rng: np.random.Generator) -> Ints:
    """Rank a year of units, and count their ranks by day."""
    old, new = stream
    return count_cells(rank_in_turn(old, new, rng.random(new.size)), day, DAYS)


def year_alarm(year: Year, rng: np.random.Generator) -> bool:
    """Tell whether any variable of any source, or of all together, raises an alarm in a year."""
    sources, per_day = year
    days = [every_day(per_day)] * len(sources) if isinstance(per_day, int) else per_day
    counts = [
        [day_counts(stream, day, rng) for stream in own]
        for own, day in zip(sources, days, strict=True)
    ]
    together = [np.sum([own[j] for own in counts], axis=0) for j in range(len(counts[0]))]
    streams = [*counts, together]
    # One more stream is the target, with its own share of the 5%.
    share = 1.0 / (len(streams) + 1)
    needed = [-math.log(FALSE_ALARMS * share / len(own)) for own in streams]
    return any(
        float(evidence_path(count).max()) >= limit
        for own, limit in zip(streams, needed, strict=True)
        for count in own
    )


def _labels(rng: np.random.Generator) -> Year:
    """Three sources, ten labels with uneven shares."""
    names = np.array([f"class {k}" for k in range(10)], dtype=object)
    shares = rng.dirichlet(np.full(10, 0.7), 3)
    return [[(rng.choice(names, 200, p=p), rng.choice(names, 10 * DAYS, p=p))] for p in shares], 10


def _features(rng: np.random.Generator) -> Year:
    """Two sources with two correlated features, a fitted membership, and a distance.

    The membership is a linear discriminant fitted to one half of the old images, the distance is
    that to the third nearest image of that half; both are ranked among the other half.
    """
    from scipy.spatial import cKDTree

    root = np.array([[1.0, 0.0], [0.7, 0.7]])
    old = [rng.normal(size=(200, 2)) @ root.T + k for k in (0.0, 0.8)]
    new = [rng.normal(size=(10 * DAYS, 2)) @ root.T + k for k in (0.0, 0.8)]
    half = [x[:100] for x in old]
    pooled = np.cov(np.concatenate([x - x.mean(axis=0) for x in half]).T)
    direction = np.linalg.solve(pooled, half[1].mean(axis=0) - half[0].mean(axis=0))
    tree = cKDTree(np.concatenate(half))

    def scores(x: Floats) -> list[Floats]:
        return [x @ direction, tree.query(x, k=3)[0][:, -1]]

    sources = []
    for x, y in zip(old, new, strict=True):
        columns = [(x[:, j], y[:, j]) for j in range(2)]
        sources.append([*columns, *zip(scores(x[100:]), scores(y), strict=True)])
    return sources, 10


def _small_reference(rng: np.random.Generator) -> Year:
    """Four sources with 15 old images each, heavy-tailed numbers."""
    return [[(rng.standard_t(2, 15), rng.standard_t(2, 5 * DAYS))] for _ in range(4)], 5


def _group_values(n: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Images of n groups: a common part three times as large as that of the image."""
    size = rng.geometric(0.3, n)
    group = np.repeat(np.arange(n), size)
    return 3 * rng.normal(size=n)[group] + rng.normal(size=group.size), group


def _groups(rng: np.random.Generator) -> Year:
    """Two sources of bursts, 3.3 images each on average: one image of each, and its size."""
    sources = []
    for _ in range(2):
        streams: list[list[np.ndarray]] = []
        for n in (150, 10 * DAYS):
            value, group = _group_values(n, rng)
            order = rng.permutation(value.size)
            _, first = np.unique(group[order], return_index=True)
            streams.append([value[order][first], np.bincount(group).astype(float)])
        sources.append(list(zip(*streams, strict=True)))
    return sources, 10  # type: ignore[return-value]


def _ties(rng: np.random.Generator) -> Year:
    """Three sources whose only number is 0 for 95% of the images."""
    return [
        [(rng.poisson(0.05, 100).astype(float), rng.poisson(0.05, 10 * DAYS).astype(float))]
        for _ in range(3)
    ], 10


def _few_a_day(rng: np.random.Generator) -> Year:
    """Ten sources with 17 to 2,003 old images, up to five new ones a day, of skewed numbers."""
    sources, days = [], []
    for k in range(10):
        day = np.repeat(np.arange(DAYS), rng.integers(0, 2 + k % 5, DAYS))
        old = rng.lognormal(0, 2, round(2000 / 3 ** (k / 2)) + 3)
        sources.append([(old, rng.lognormal(0, 2, day.size))])
        days.append(day)
    return sources, days


def _one_source(rng: np.random.Generator) -> Year:
    """One source: a constant, a switch that is on once in 200 images, a number of four values."""
    day = np.repeat(np.arange(DAYS), rng.integers(1, 6, DAYS))
    sizes = 50, day.size
    columns = [
        tuple(np.zeros(n) for n in sizes),
        tuple((rng.random(n) < 0.005).astype(float) for n in sizes),
        tuple(rng.integers(0, 4, n).astype(float) for n in sizes),
    ]
    return [columns], [day]  # type: ignore[list-item]


def _patients(rng: np.random.Generator) -> Year:
    """Three sources of patients with 1 to 200 images, one drawn of each; one new patient a day."""
    sources = []
    for _ in range(3):
        streams: list[list[np.ndarray]] = []
        for n in (40, DAYS):
            size = np.ceil(rng.pareto(1.0, n) + 1).clip(max=200)
            streams.append([5 * rng.normal(size=n) + rng.normal(size=n) / size, size])
        sources.append(list(zip(*streams, strict=True)))
    return sources, 1  # type: ignore[return-value]


def _weeks(shift: float, days: int, rng: np.random.Generator) -> Year:
    """Two sources whose Sundays differ; old images are of all weekdays, in their proportions.

    A look at so many days: images of a look are shuffled.
    """
    sources = []
    look = every_day(10) // days
    for _ in range(2):
        order = np.lexsort((rng.random(look.size), look))
        sunday = np.arange(300) % 7 == 6, (every_day(10) % 7 == 6)[order]
        sources.append([tuple(shift * one + rng.normal(size=one.size) for one in sunday)])
    return sources, [look, look]  # type: ignore[return-value]


def _mondays(rng: np.random.Generator) -> Year:
    """Six sources whose new images come on Mondays: two columns, one mostly 0, and their product.

    Cauchy numbers, 25 old images and 0 to 60 new ones a week.
    """
    sources, days = [], []
    for _ in range(6):
        day = np.repeat(np.arange(0, DAYS, 7), rng.integers(0, 61, 53))
        streams: list[list[np.ndarray]] = []
        for n in (25, day.size):
            heavy, rare = rng.standard_cauchy(n), (rng.random(n) < 0.1) * rng.normal(size=n)
            streams.append([heavy, rare, heavy * rare])
        sources.append(list(zip(*streams, strict=True)))
        days.append(day)
    return sources, days  # type: ignore[return-value]


def _twelve_columns(rng: np.random.Generator) -> Year:
    """Two sources, twelve columns with correlations of 0.8, 60 old images and two new ones a day.

    The columns are rounded more and more coarsely, the last to its sign.
    """
    sources = []
    for _ in range(2):
        streams: list[list[np.ndarray]] = []
        for n in (60, 2 * DAYS):
            common, own = rng.normal(size=(n, 1)), rng.normal(size=(n, 12))
            value = 0.8**0.5 * common + 0.2**0.5 * own
            streams.append([np.round(value[:, j] * (12 - j)) for j in range(11)])
            streams[-1].append((value[:, 11] > 0).astype(float))
        sources.append(list(zip(*streams, strict=True)))
    return sources, 2  # type: ignore[return-value]


NULL_WORLDS: dict[str, Callable[[np.random.Generator], Year]] = {
    "3 sources, 10 labels, 200 old images each": _labels,
    "2 sources, features, membership, distance": _features,
    "4 sources, 15 old images each, heavy tails": _small_reference,
    "2 sources in bursts, burst sizes": _groups,
    "3 sources, 95% ties": _ties,
    # Nothing was tuned on these. Where days differ, units are not exchangeable.
    "10 sources of 17 to 2,003 old images, 0 to 5 new a day, log-normal": _few_a_day,
    "1 source, 50 old images, 1 to 5 new a day, columns of 1, 2 and 4 values": _one_source,
    "3 sources, 40 patients with 1 to 200 images, one new a day": _patients,
    "2 sources, Sundays 0.5 sd higher, a look a day": partial(_weeks, 0.5, 1),
    "2 sources, Sundays 2 sd higher, a look a day": partial(_weeks, 2.0, 1),
    "2 sources, Sundays 2 sd higher, a look a week": partial(_weeks, 2.0, 7),
    "6 sources, 25 old images each, new ones on Mondays, Cauchy and mostly 0": _mondays,
    "2 sources, 60 old images each, 12 correlated and rounded columns": _twelve_columns,
}


def false_alarms(name: str, part: int, years: int) -> int:
    """Count years of a null world with an alarm; every part has random numbers of its own."""
    rng = np.random.default_rng([1, list(NULL_WORLDS).index(name), part])
    return sum(year_alarm(NULL_WORLDS[name](rng), rng) for _ in range(years))


def outside_alarms(years: int) -> int:
    """Count years with an alarm where exactly the 5% that are allowed are outside the pool."""
    rng, alarms = np.random.default_rng(3), 0
    limit = -math.log(FALSE_ALARMS / 5 / 2)
    for _ in range(years):
        outside_t = rng.binomial(10, 0.05, DAYS)
        alarms += any(
            float(log_share_evidence(outside_t[:t], 10 - outside_t[:t], 0.05)[0]) >= limit
            for t in range(1, DAYS + 1)
        )
    return alarms


def naive_alarms(years: int) -> tuple[int, int]:
    """Count what two shortcuts do where nothing changes, with 200 old images.

    Ranks among the old images alone, as if these were the truth; and a Kolmogorov–Smirnov test of
    all new images so far against the old ones, at 5%, every day.
    """
    from scipy.stats import ks_2samp

    rng, limit = np.random.default_rng(4), -math.log(FALSE_ALARMS)
    fixed = daily = 0
    for _ in range(years):
        old, new = np.sort(rng.normal(size=200)), rng.normal(size=10 * DAYS)
        rank = (np.searchsorted(old, new) + rng.random(new.size)) / (old.size + 1)
        count_tc = count_cells(rank, every_day(10), DAYS)
        fixed += float(evidence_path(count_tc).max()) >= limit
        daily += any(
            ks_2samp(old, new[: 10 * t], method="asymp").pvalue < 0.05 for t in range(1, DAYS + 1)
        )
    return fixed, daily


def delays(kind: str, size: float, n_old: int, start: int, per_day: int, years: int) -> list[int]:
    """Return days from the change to the alarm; DAYS where there is none.

    Three sources, six variables each and those of all together: one of the 30 tests.
    """
    rng = np.random.default_rng([5, n_old, start, int(100 * size)])
    limit, found = -math.log(FALSE_ALARMS / 5 / 6), []
    changed = every_day(per_day) >= start
    for _ in range(years):
        if kind == "shift":
            stream = rng.normal(size=n_old), rng.normal(size=changed.size) + size * changed
        else:
            share = np.where(changed, 0.3 + size, 0.3)
            stream = (
                (rng.random(n_old) < 0.3).astype(float),
                (rng.random(changed.size) < share).astype(float),
            )
        path_t = evidence_path(day_counts(stream, every_day(per_day), rng))
        over = np.flatnonzero(path_t[start:] >= limit)
        found.append(int(over[0]) + 1 if over.size else DAYS)
    return found


# Old images, first day of the change, new units a day.
CASES = (300, 0, 20), (300, 180, 20), (3000, 0, 20), (3000, 180, 20), (300, 180, 3)
CHANGES = [
    *[("shift", size) for size in (0.2, 0.3, 0.5, 1.0)],
    *[("share", size) for size in (0.05, 0.1, 0.2)],
]


def power_row(kind: str, size: float, years: int) -> str:
    """Return a row of the table: years with an alarm, and the median of days until it."""
    name = f"mean + {size} sd" if kind == "shift" else f"share 30% → {30 + 100 * size:.0f}%"
    cells = []
    for n_old, start, per_day in CASES:
        days = delays(kind, size, n_old, start, per_day, years)
        caught, median = sum(day < DAYS for day in days), float(np.median(days))
        shown = f", {median:.0f} days" if median < DAYS else ""
        cells.append(f"{caught / years:.0%}{shown}")
    return f"| {name} | " + " | ".join(cells) + " |"


def print_null_worlds(beginnings: list[str], years: int) -> None:
    """Print the rows of some null worlds."""
    for name in NULL_WORLDS:
        if name.startswith(tuple(beginnings)):
            parts = np.array_split(np.arange(years), math.ceil(years / 25))
            alarms = sum(false_alarms(name, k, part.size) for k, part in enumerate(parts))
            print(f"| {name} | {years} | {alarms / years:.1%} |", flush=True)


def main() -> None:
    """Print the tables of docs/monitor.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=300, help="years of each null world")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--world", action="append", help="only null worlds whose names begin so")
    options = parser.parse_args()
    years, few = options.years, min(options.years, 100)
    check_compiled(np.random.default_rng(0))
    if options.world:
        print_null_worlds(options.world, years)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        sizes = [len(part) for part in np.array_split(np.arange(years), math.ceil(years / 25))]
        worlds = {
            name: [pool.submit(false_alarms, name, k, size) for k, size in enumerate(sizes)]
            for name in NULL_WORLDS
        }
        worlds["5% of the target outside, 5% allowed"] = [pool.submit(outside_alarms, years)]
        naive = pool.submit(naive_alarms, few)
        rows = [pool.submit(power_row, kind, size, few) for kind, size in CHANGES]
        print("| nothing changes | years | with an alarm |\n|---|---|---|")
        for name, parts in worlds.items():
            alarms = sum(part.result() for part in parts)
            print(f"| {name} | {years} | {alarms / years:.1%} |", flush=True)
        fixed, daily = naive.result()
        print("\n| shortcut | years | with an alarm |\n|---|---|---|")
        print(f"| the old images taken as the truth | {few} | {fixed / few:.0%} |")
        print(f"| a two-sample test at 5% every day | {few} | {daily / few:.0%} |")
        cases = [
            f"{n_old:,} old, day {start + 1}" + ("" if per_day == 20 else f", {per_day} a day")
            for n_old, start, per_day in CASES
        ]
        print(f"\n| change | {' | '.join(cases)} |\n" + "|---" * (len(CASES) + 1) + "|")
        for row in rows:
            print(row.result(), flush=True)


if __name__ == "__main__":
    main()
