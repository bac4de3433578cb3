"""Hidden cells cannot be computed from those shown."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.report.summary.privacy import (
    SMALLEST_CELL,
    count_units,
    few_differ,
    hidden_cells,
    sources_with_few,
)


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


def test_sources_in_which_few_have_a_value_or_lack_it() -> None:
    source = np.repeat([0, 1, 2, 3], 100)
    value = np.zeros(400)
    value[:4] = 1.0  # few have it
    value[100:195] = 1.0  # few lack it
    value[200:250] = 1.0
    assert sources_with_few(value, source, 4, None).tolist() == [True, True, True, False]
    # Units are groups: fifty images of three patients are few, and 5 + 4 + 3 are together enough.
    group = np.arange(400)
    group[200:250] = 200 + np.arange(50) % 3
    assert sources_with_few(value, source, 4, group).tolist() == [True, True, True, False]
    value[200:250] = 0.0
    value[:4] = 0.0
    value[100:150] = 0.0
    assert not sources_with_few(value, source, 4, None).any()
    numbers = np.random.default_rng(0).normal(size=400)
    assert not sources_with_few(numbers, source, 4, None).any()
    assert sources_with_few(numbers, source, 4, None, [True, False, False, False]).sum() == 2


def test_an_outcome_that_few_have() -> None:
    value = np.zeros(50)
    assert not few_differ(value, None)
    value[:9] = 1.0
    assert few_differ(value, None)
    assert few_differ(1.0 - value, None)
    value[:12] = 1.0
    assert not few_differ(value, None)
    assert few_differ(value, np.arange(50) // 4)
