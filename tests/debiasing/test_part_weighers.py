from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from unskew import CoverageError, DataError
from unskew.bias.known import Known
from unskew.debiasing.part_weighers import LogLinearWeigher, StrataLookup, StrataWeigher


def test_strata_are_looked_up_by_text_and_dropped_ones_weigh_nothing() -> None:
    lookup = StrataLookup(("k",), {}, {("1",): 0, ("2",): 1, ("3",): -1})
    weigher = StrataWeigher(lookup, np.array([0.1, 0.2]))
    weigher = pickle.loads(pickle.dumps(weigher))
    assert weigher.weigh_table(pd.DataFrame({"k": [2, 1, 3]})).tolist() == [0.2, 0.1, 0.0]
    assert weigher.weigh_table(pd.DataFrame({"k": ["2", "1"]})).tolist() == [0.2, 0.1]
    with pytest.raises(DataError) as raised:
        weigher.weigh_table(pd.DataFrame({"k": [4]}))
    assert raised.value.facts["levels"] == ["k = 4"]


def test_an_image_that_no_source_selects_is_refused_and_its_fingerprint_is_of_numbers() -> None:
    known = Known({"a": "x"})
    frame = pd.DataFrame({"id": [1, 2], "source": "a", "x": [1.0, 2.0]})
    from unskew import Pool

    factor = known.fit(Pool.from_frame(frame, id="id")).factors[0]
    weigher = LogLinearWeigher(("a",), 1, (factor,), None, np.zeros((1, 0)), np.zeros((1, 1)))
    np.testing.assert_allclose(weigher.weigh_table(frame), [1.0, 0.5])
    with pytest.raises(CoverageError):
        weigher.weigh_table(pd.DataFrame({"x": [1.0, 0.0]}))
    u_ck = np.full((1, 1), 1e-14)
    again = LogLinearWeigher(("a",), 1, (factor,), None, np.zeros((1, 0)), u_ck)
    assert len(weigher.fingerprint) == len(again.fingerprint) == 64
