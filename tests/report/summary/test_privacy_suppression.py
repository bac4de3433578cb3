"""Hidden cells cannot be computed from those shown."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.report.summary.privacy import SMALLEST_CELL, count_units, hidden_cells


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.data())
def test_hidden_cells_are_none_or_several_that_are_ten_together(
    sizes: list[int], data: st.DataObject
) -> None:
    forced = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    size = np.array(sizes)
    hidden = hidden_cells(size, forced)
    assert hidden[(size > 0) & (size < SMALLEST_CELL)].all()
    assert hidden[forced].all()
    assert not hidden[(size == 0) & ~np.array(forced)].any()
    positive = hidden & (size > 0)
    if positive.any() and not positive[size > 0].all():
        assert positive.sum() >= 2
        assert size[positive].sum() >= SMALLEST_CELL
    if not ((size > 0) & (size < SMALLEST_CELL)).any() and not any(forced):
        assert not hidden.any()


def test_hidden_cells_by_hand() -> None:
    assert hidden_cells([50, 3, 12, 40]).tolist() == [False, True, True, False]
    assert hidden_cells([50, 4, 5, 12]).tolist() == [
        False,
        True,
        True,
        True,
    ]  # 4 + 5 would be a small cell, too
    assert hidden_cells([50, 4, 6, 12]).tolist() == [False, True, True, False]
    assert hidden_cells([50, 0, 12]).tolist() == [False, False, False]
    assert hidden_cells([3]).tolist() == [True]
    assert hidden_cells([]).tolist() == []


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_units_are_distinct_groups(seed: int, n_codes: int) -> None:
    rng = np.random.default_rng(seed)
    group, code = rng.integers(0, 7, 40), rng.integers(-1, n_codes, 40)
    expected = [len(set(group[code == at].tolist())) for at in range(n_codes)]
    assert count_units(group, code, n_codes).tolist() == expected
    row = rng.permutation(40)
    assert count_units(group, code[row], n_codes, row).tolist() == expected
    assert (
        count_units(None, code, n_codes).tolist()
        == np.bincount(code[code >= 0], minlength=n_codes).tolist()
    )
