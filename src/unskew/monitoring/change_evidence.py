"""E-processes: evidence against "nothing has changed" that may be looked at every day.

While nothing has changed, the ranks of `conformal_ranks` are independent and uniform on [0, 1],
whatever the distribution of the images. A bettor who starts at look s with capital 1 and a
Dirichlet mixture over the shares of B bins of widths v_b has, at look t, from the counts c_b of the
ranks since then, n in all,

    M_s(t) = Γ(A)/Γ(n + A) Π_b Γ(c_b + A v_b)/Γ(A v_b) v_b^{−c_b},

a martingale. So has one who bets on a shift or another spread of the ranks, by densities 1 + ε g(p)
with ∫ g = 0, M_s(t) = Π_i (1 + ε g(p_i)). The mixture over bins, concentrations A, densities and
starts, E_t = Σ_s w_s M_s(t) with Σ_s w_s = 1 and the capital of those who have not started yet
kept, is a martingale, too. Ville's inequality:
P(E_t ≥ 1/α at any time) ≤ α. A bettor who starts at the change learns the new shares; nobody needs
to know when that is.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import scipy.special

from unskew.records.arrays import Floats, Ints

# Ranks are counted in this many equal cells; all bins are unions of them.
CELLS = 64
# Bins as their edges, in cells: halves and quarters for shifts, sixteenths for other shapes, and
# tails for a few images unlike all others.
_EDGES = (
    (0, 32, 64),
    (0, 16, 32, 48, 64),
    tuple(range(0, 65, 4)),
    (0, 1, 4, 60, 63, 64),
)
# Concentrations A: bettors on large and on small changes.
_CONCENTRATIONS = (16.0, 200.0)
# ε of bets on a shift, g(p) = 2p − 1, and on another spread, g the second Legendre polynomial.
_SHIFTS = (-0.8, -0.4, -0.15, 0.15, 0.4, 0.8)
_SPREADS = (-0.6, -0.25, 0.25, 0.6)
# A quarter of the capital starts at the first look, the rest later, w_s ∝ 1/((s + c)(s + c + 1)):
# c looks pass until half of that has started.
_FIRST, _LATER = 0.25, 60.0


def start_weights(n_looks: int) -> tuple[Floats, float]:
    """Return ((T,) w_s of the bettors who start at looks 1 … T, the capital of all others).

    >>> weight, rest = start_weights(3)
    >>> round(float(weight.sum()) + rest, 12)
    1.0
    """
    s = np.arange(n_looks, dtype=np.float64)
    weight_t = (1.0 - _FIRST) * _LATER / ((s + _LATER) * (s + _LATER + 1.0))
    if n_looks:
        weight_t[0] += _FIRST
    return weight_t, max(1.0 - float(weight_t.sum()), 1e-300)


def log_rank_evidence(count_tc: Ints) -> tuple[Floats, Floats]:
    """Compute log E_T and (…, T) log w_s M_s(T) from (…, T, 64) counts of ranks by look and cell.

    Leading axes are independent processes.
    """
    since_tc = np.flip(np.flip(count_tc, axis=-2).cumsum(axis=-2), axis=-2)
    logs = []
    for edges in _EDGES:
        count_tb = np.add.reduceat(since_tc, edges[:-1], axis=-1)
        width_b = np.diff(edges) / CELLS
        logs += [_log_dirichlet(count_tb, width_b, total) for total in _CONCENTRATIONS]
    density_ce = _densities()
    # Half of the capital bets on bins, half on densities.
    share = np.array(
        [0.5 / len(logs)] * len(logs) + [0.5 / density_ce.shape[1]] * density_ce.shape[1]
    )
    log_te = np.concatenate([np.stack(logs, axis=-1), since_tc @ np.log(density_ce)], axis=-1)
    return mix_starts(np.asarray(scipy.special.logsumexp(log_te + np.log(share), axis=-1)))


@cache
def _densities() -> Floats:
    """Compute (64, E) densities of the cells; each has mean 1 over them."""
    x_c = (2.0 * np.arange(CELLS) + 1.0) / CELLS - 1.0
    spread_c = 1.5 * x_c**2 - 0.5
    spread_c -= spread_c.mean()
    columns = [1.0 + epsilon * x_c for epsilon in _SHIFTS]
    return np.column_stack([*columns, *[1.0 + epsilon * spread_c for epsilon in _SPREADS]])


def _log_dirichlet(count_tb: Ints, width_b: Floats, concentration: float) -> Floats:
    """Compute (…, T) log M_s(T) for one choice of bins; log Γ is looked up, counts being whole."""
    total_t = count_tb.sum(axis=-1)
    bits = int(total_t.max(initial=0)).bit_length()
    log_t = -_log_rises(bits, concentration)[total_t]
    for width in np.unique(width_b):
        table = _log_rises(bits, concentration * float(width))
        count_ti = count_tb[..., width_b == width]
        log_t += table[count_ti].sum(axis=-1) - count_ti.sum(axis=-1) * math.log(width)
    return np.asarray(log_t)


@cache
def _log_rises(bits: int, prior: float) -> Floats:
    """Compute (2^bits,) log Γ(c + a)/Γ(a) for c = 0, 1, …"""
    number = np.arange(1 << bits)
    return np.asarray(scipy.special.gammaln(number + prior) - scipy.special.gammaln(prior))


def log_share_evidence(outside_t: Ints, inside_t: Ints, most: float) -> tuple[Floats, Floats]:
    """Compute the same against "a share of at most ``most`` is outside", from (T,) counts.

    Bettors mix over shares p > ``most`` by a truncated Beta(1/2, 1/2): M = ∫ (p/most)^x
    ((1 − p)/(1 − most))^y. Its expectation is at most 1 for every share below ``most``.
    """
    out_t = outside_t[::-1].cumsum()[::-1].astype(np.float64)
    in_t = inside_t[::-1].cumsum()[::-1].astype(np.float64)
    a_t, b_t = out_t + 0.5, in_t + 0.5
    with np.errstate(divide="ignore"):
        log_t = (
            scipy.special.betaln(a_t, b_t)
            + np.log(scipy.special.betaincc(a_t, b_t, most))
            - scipy.special.betaln(0.5, 0.5)
            - math.log(float(scipy.special.betaincc(0.5, 0.5, most)))
            - out_t * math.log(most)
            - in_t * math.log1p(-most)
        )
    return mix_starts(log_t)


def mix_starts(log_t: Floats) -> tuple[Floats, Floats]:
    """Return log Σ_s w_s M_s, and its terms, from (…, T) log M_s."""
    weight_t, rest = start_weights(log_t.shape[-1])
    with np.errstate(divide="ignore"):
        term_t = np.log(weight_t) + log_t
    kept = np.full((*log_t.shape[:-1], 1), math.log(rest))
    return scipy.special.logsumexp(np.concatenate([term_t, kept], axis=-1), axis=-1), term_t


def share_interval_sequence(outside: int, total: int, level: float) -> tuple[float, float]:
    """Return an interval of a share that holds at all looks together with probability ``level``.

    It is the set of p with ∫ p'^x (1 − p')^y Beta(p'; 1/2, 1/2) / (p^x (1 − p)^y) < 1/(1 − level)
    (Robbins 1970).
    """
    if total == 0:
        return 0.0, 1.0
    inside = total - outside
    mixed = float(
        scipy.special.betaln(outside + 0.5, inside + 0.5) - scipy.special.betaln(0.5, 0.5)
    )

    def excess(p: float) -> float:
        own = float(scipy.special.xlogy(outside, p) + scipy.special.xlog1py(inside, -p))
        return mixed - own + math.log1p(-level)

    from scipy.optimize import brentq

    best = outside / total
    low = 0.0 if outside == 0 else float(brentq(excess, 1e-300, best))
    high = 1.0 if inside == 0 else float(brentq(excess, best, 1.0 - 1e-16))
    return low, high
