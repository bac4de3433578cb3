"""Random connected problems with values, for tests of standard errors."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import unskew


@st.composite
def problems(draw_):
    """A connected problem with zeros: ω (n, K), source, values."""
    n_sources = draw_(st.integers(1, 4))
    seed = draw_(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    source = np.concatenate(
        [np.arange(n_sources), rng.integers(0, n_sources, draw_(st.integers(5, 40)))]
    )
    omega = rng.uniform(0.1, 3.0, (source.size, n_sources)) * (
        rng.random((source.size, n_sources)) < draw_(st.floats(0.4, 1.0))
    )
    omega[np.arange(source.size), source] += 0.5
    assume(unskew.check_overlap(omega, source).connected)
    return omega, source, rng.standard_normal(source.size)
