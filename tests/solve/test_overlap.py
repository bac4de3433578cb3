"""The overlap graph: connected or not, in which direction, by how much; and what the solver does
with the verdict.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

import unskew
from problems import FORMS, Blocks, in_form, random_problem
from raising import refused
from unskew.errors import WeakOverlapWarning
from unskew.solve.overlap import widest_path

TWO_ISLANDS = np.kron(np.eye(2), np.ones((40, 2)))  # sources 0, 1 and sources 2, 3 share nothing
ISLAND_SOURCE = np.repeat([0, 1, 2, 3], 20)
ISLAND_NAMES = ["lake", "river", "dune", "desert"]


def one_way() -> tuple[np.ndarray, np.ndarray]:
    """Source "wide" could have taken every image, source "narrow" only its own: one group, but no
    way back.
    """
    omega = np.ones((40, 2))
    omega[:20, 1] = 0
    return omega, np.repeat([0, 1], 20)


@pytest.mark.parametrize("form", FORMS)
def test_disconnected_sources_are_named(form: str) -> None:
    omega, options = in_form(form, TWO_ISLANDS)
    overlap = unskew.check_overlap(omega, ISLAND_SOURCE, names=ISLAND_NAMES, **options)
    assert (overlap.verdict, overlap.connected) == ("disconnected", False)
    assert overlap.components == (("lake", "river"), ("dune", "desert"))
    assert "no image of [dune, desert] could have come from [lake, river]" in overlap.message
    assert overlap.bottleneck == 0
    with refused(unskew.OverlapError, sources=list(ISLAND_NAMES)) as caught:
        unskew.solve_normalizers(omega, ISLAND_SOURCE, names=ISLAND_NAMES, **options)
    assert caught.value.overlap is not None
    assert isinstance(caught.value, ValueError)
    failed = unskew.solve_normalizers(omega, ISLAND_SOURCE, throw=False, **options)
    assert failed.status is unskew.Status.DISCONNECTED
    assert np.all(np.isnan(failed.log_normalizer))


def test_a_one_way_graph_is_not_connected_and_the_direction_is_named() -> None:
    omega, source = one_way()
    overlap = unskew.check_overlap(omega, source, names=["wide", "narrow"])
    assert not overlap.connected
    assert "no image of [wide] could have come from [narrow]" in overlap.message
    assert "no image of [narrow]" not in overlap.message
    assert overlap.bottleneck == 0.5  # undirected, half of the images are common


@given(
    seed=st.integers(0, 10**6),
    n_sources=st.integers(2, 7),
    zeros=st.sampled_from([0.5, 0.8, 0.9, 0.97]),
)
@settings(max_examples=60)
def test_graph_equals_brute_force(seed: int, n_sources: int, zeros: float) -> None:
    problem = random_problem(seed, 30, n_sources, zeros)
    positive = problem.omega > 0
    link = np.array(
        [
            [np.sum(positive[problem.source == b, a]) for b in range(n_sources)]
            for a in range(n_sources)
        ]
    )
    common = positive.T.astype(float) @ positive / 30
    for form in (np.asarray, sp.csr_array):
        overlap = unskew.check_overlap(form(problem.omega), problem.source)
        np.testing.assert_array_equal(overlap.link_count, link)
        np.testing.assert_allclose(overlap.common_mass, common, atol=1e-15)
        assert overlap.connected == (connected_components(link > 0, connection="strong")[0] == 1)
        thresholds = np.unique(common[common > 0])
        linked = [
            t for t in thresholds if connected_components(common >= t, directed=False)[0] == 1
        ]
        assert overlap.bottleneck == pytest.approx(max(linked, default=0), abs=1e-12)
        if overlap.connected:
            counts = np.unique(link[link > 0])
            strong = [
                t for t in counts if connected_components(link >= t, connection="strong")[0] == 1
            ]
            assert overlap.weakest_count == max(strong)
            k, other = (int(name) for name in overlap.weakest_link)
            assert link[k, other] == overlap.weakest_count
        low = np.where(positive, problem.omega, np.inf).min(axis=0) / problem.omega.max(axis=0)
        assert overlap.epsilon == pytest.approx(low.min())


def test_weak_overlap_warns_once_and_names_the_link() -> None:
    omega = np.zeros((60, 2))
    omega[:30, 0] = omega[30:, 1] = 1
    omega[[0, 30]] = 1
    source = np.repeat([0, 1], 30)
    overlap = unskew.check_overlap(omega, source, names=["day", "night"])
    assert overlap.verdict == "weak"
    assert overlap.weakest_count == 1
    assert overlap.link_error > overlap.thresholds["link_error"]
    with pytest.warns(WeakOverlapWarning, match="`day`.*`night`|`night`.*`day`") as caught:
        unskew.debias_weights(omega, source, names=["day", "night"])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_small_omega_is_found_weak_by_a_solve() -> None:
    """All ω positive, so the graph is full; but between the groups ω is 1e-6 of what it is
    within.
    """
    problem = random_problem(0, 400, 4, zeros=0)
    group = np.array([0, 0, 1, 1])
    omega = problem.omega * np.where(group[problem.source][:, None] == group, 1, 1e-6)
    checked = unskew.check_overlap(omega, problem.source)
    with pytest.warns(WeakOverlapWarning, match="are linked, but weakly"):
        weights = unskew.debias_weights(omega, problem.source)
    assert checked.verdict == weights.overlap.verdict == "weak"
    assert checked.link_error == pytest.approx(weights.overlap.link_error, rel=1e-6)
    sides = {group[int(name)] for name in weights.overlap.weakest_link}
    assert sides == {0, 1}


def test_constants_at_the_solution() -> None:
    problem = random_problem(4, 500, 4, zeros=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = unskew.debias_weights(problem.omega, problem.source)
    overlap, share, n = weights.overlap, problem.share, 500
    assert overlap.verdict == "ok"
    q = problem.omega * (share / weights.normalizer) * (n * weights.weight)[:, None]
    matrix = q.T @ q / n / share[:, None]
    np.testing.assert_allclose(overlap.matrix, matrix, atol=1e-12)
    np.testing.assert_allclose(overlap.matrix.sum(axis=1), 1, atol=1e-12)
    assert overlap.spectral_gap == pytest.approx(
        1 - np.sort(np.linalg.eigvals(matrix).real)[-2], abs=1e-10
    )
    assert overlap.sigma2 == pytest.approx(
        np.linalg.eigvalsh(np.diag(share) - q.T @ q / n)[1], abs=1e-12
    )
    positive = problem.omega > 0
    mass = (positive * weights.weight[:, None]).T @ positive
    linked = [
        t
        for t in np.unique(mass)
        if connected_components(mass >= t - 1e-12, directed=False)[0] == 1
    ]
    assert overlap.kappa == pytest.approx(max(linked), abs=1e-12)


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_thousands_of_sources_in_a_chain() -> None:
    """Sparse sums, sparse factorisation, sparse graph; the truth by the equations themselves."""
    rng = np.random.default_rng(0)
    n_sources, per = 2400, 12
    source = np.repeat(np.arange(n_sources), per)
    low = np.clip(source - rng.integers(0, 3, source.size), 0, n_sources - 3)
    columns = low[:, None] + np.arange(3)
    data = np.exp(0.3 * rng.normal(size=columns.shape))
    omega = sp.csr_array(
        (data.ravel(), columns.ravel(), np.arange(0, data.size + 1, 3)),
        shape=(source.size, n_sources),
    )
    overlap = unskew.check_overlap(omega, source)
    if not overlap.connected:
        pytest.fail("the chain is meant to be connected")
    assert sp.issparse(overlap.common_mass)
    weights = unskew.debias_weights(omega, source)
    np.testing.assert_allclose(omega.T @ weights.weight / weights.normalizer, 1, atol=1e-9)
    assert weights.overlap.spectral_gap is not None
    assert weights.overlap.verdict == "weak"


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
@pytest.mark.parametrize("matrix_free", [False, True])
def test_thousands_of_sources_that_overlap_at_random(
    monkeypatch: pytest.MonkeyPatch, matrix_free: bool
) -> None:
    """No order makes this graph narrow: conjugate gradients, on the matrix or, where it would be
    too large, without it.
    """
    if matrix_free:
        monkeypatch.setattr("unskew.solve.objective.MOST_PAIRS", 0)
    else:
        monkeypatch.setattr("unskew.solve.laplacian._MOST_BAND_WORK", 0)
    problem = random_problem(3, 12_000, 2100, zeros=1 - 6 / 2100)
    omega = sp.csr_array(problem.omega)
    given = omega if matrix_free else Blocks(omega, 5000)  # streams of CSR blocks stay sparse too
    solution = unskew.solve_normalizers(given, problem.source)
    share = problem.share
    weight = 1 / (omega @ (share / solution.normalizer)) / problem.source.size
    np.testing.assert_allclose(omega.T @ weight / solution.normalizer, 1, atol=1e-9)
    assert (solution.hessian is None) == matrix_free
    assert matrix_free or sp.issparse(solution.hessian)


def test_the_widest_path_is_that_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        capacity = rng.integers(0, 6, (5, 5)).astype(float)
        width = {0: np.inf}
        for node in range(1, 5):
            width[node] = max(
                min(capacity[step] for step in itertools.pairwise(path))
                for length in range(4)
                for middle in itertools.permutations(set(range(1, 5)) - {node}, length)
                for path in [(0, *middle, node)]
            )
        least, k, other = widest_path(capacity)
        assert least == min(width.values())
        assert capacity[k, other] == least or least == 0


def test_the_narrowest_of_the_widest_paths_is_the_smallest_edge_of_the_largest_tree() -> None:
    weight = np.triu(np.random.default_rng(1).uniform(0.1, 1.0, (9, 9)), 1)
    least, _, _ = widest_path(weight + weight.T)
    assert least == pytest.approx(-minimum_spanning_tree(-weight).data.max(), rel=1e-15)
