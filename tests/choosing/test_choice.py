"""What a choice shows of itself."""

from __future__ import annotations

from dataclasses import replace

import unskew
from choosing_pools import labelled_pool, tilted_pool
from unskew.bias import Box, Strata


def test_repr_is_a_few_lines_with_the_choice_and_its_reason() -> None:
    pool, target = labelled_pool(), unskew.Target.uniform("label")
    choice = unskew.choose_bias(pool, [Box(["x"]), Strata("label")], target, check=False)
    lines = repr(choice).splitlines()
    assert lines[0] == "BiasChoice: Strata(label) (3 candidates compared)"
    assert f"score {choice.table['score'][0]:.4f} ± " in lines[1]
    assert f"{choice.weights.ess:,.0f} effective images, overlap ok" in lines[1]
    assert len(lines) == 3
    assert lines[2].startswith("  Strata(label) is chosen")
    long = replace(choice, reason="word " * 200)
    assert len(repr(long).splitlines()[2]) <= 302


def test_repr_where_nothing_can_be_chosen() -> None:
    choice = unskew.choose_bias(tilted_pool(), [Box(["y"])], baseline=False)
    lines = repr(choice).splitlines()
    assert lines[0] == "BiasChoice: no candidate can be used (1 candidate compared)"
    assert len(lines) == 2
