"""Small problems in plain NumPy and the same ones compiled: equal to 1e-12."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew import WeakOverlapWarning, debias_weights
from unskew.engine import compilation
from unskew.solve.log_linear import sum_log_linear


def _both(call):
    """The results with nothing compiled, and with everything."""
    plain = call()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "PLAIN_NUMBERS", 0)
        return plain, call()


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 999),
    n_sources=st.sampled_from([1, 2, 5, 30]),
    form=st.sampled_from(["float64", "float32", "csr", "log", "few", "csr few"]),
    counted=st.booleans(),
)
def test_weights_are_the_same_compiled_or_not(seed, n_sources, form, counted) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(200, 900))
    source = np.concatenate([np.arange(n_sources), rng.integers(0, n_sources, n - n_sources)])
    omega = np.exp(rng.normal(size=(n, n_sources)))
    if "few" in form:
        omega = np.ceil(omega[rng.integers(0, 9, n)])
    if "csr" in form or seed % 2:
        omega *= rng.random(omega.shape) < 0.8
        omega[np.arange(n), source] = 1.0
    with np.errstate(divide="ignore"):
        given_omega = np.log(omega) * 3 if form == "log" else omega
    if "csr" in form:
        given_omega = sp.csr_array(omega)
    if form == "float32":
        given_omega = omega.astype(np.float32)
    design = rng.uniform(0.5, 2.0, n) if counted else None
    options = {"log": form == "log", "design_weight": design}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        plain, compiled = _both(lambda: debias_weights(given_omega, source, **options))
    np.testing.assert_allclose(plain.weight, compiled.weight, rtol=1e-12, atol=0)
    np.testing.assert_allclose(plain.normalizer, compiled.normalizer, rtol=1e-12)
    assert plain.overlap.kappa == pytest.approx(compiled.overlap.kappa, rel=1e-12)
    assert plain.overlap.epsilon == compiled.overlap.epsilon
    np.testing.assert_array_equal(plain.overlap.common_mass, compiled.overlap.common_mass)


@pytest.mark.parametrize("n_cells", [1, 4])
@pytest.mark.parametrize("has_offset", [False, True])
def test_log_linear_sums_are_the_same_compiled_or_not(n_cells: int, has_offset: bool) -> None:
    rng = np.random.default_rng(n_cells)
    n, phi = 600, rng.normal(size=(600, 2))
    offset = rng.normal(size=(n, 3)) if has_offset else None
    given = (phi, offset, rng.integers(0, 3, n), rng.integers(0, n_cells, n))
    u, theta = rng.normal(size=(n_cells, 3)), rng.normal(size=(3, 2))
    plain, compiled = _both(lambda: sum_log_linear(*given, u, theta))
    assert plain.value == pytest.approx(compiled.value, rel=1e-13)
    np.testing.assert_allclose(plain.gradient, compiled.gradient, rtol=1e-12, atol=1e-12 * n)
    np.testing.assert_allclose(plain.hessian, compiled.hessian, rtol=1e-12, atol=1e-12 * n)


def test_small_problems_do_not_load_numba() -> None:
    code = (
        f"import sys; sys.path[:] = {sys.path}; import numpy as np, unskew; "
        "rng = np.random.default_rng(0); "
        "unskew.debias_weights(np.exp(rng.normal(size=(300, 3))), rng.integers(0, 3, 300))"
        ".mean(rng.normal(size=300)); "
        "print([name for name in ('numba', 'pandas', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
