"""The record of estimated shares: sentences, and plain values."""

import dataclasses
import json

from raising import refused
from unskew import ConfigError
from unskew.target.label_shift_record import LabelShift, read_label_shift

RECORD = LabelShift(
    classes=("cat", "dog"),
    share=(0.75, 0.25),
    stderr=(0.02, 0.02),
    interval=((0.71, 0.79), (0.21, 0.29)),
    level=0.9,
    calibration="temperature",
    calibration_part=(0.4, 0.4),
    condition=1.0,
    n_target=500,
    n_validation=300,
    black_box=(0.7, 0.3),
    agreement_p=0.4,
)


def test_it_reads_back_what_it_wrote():
    assert read_label_shift(json.loads(json.dumps(RECORD.to_dict()))) == RECORD
    with refused(ConfigError, key="predictions.share"):
        read_label_shift({"classes": ["cat"]})


def test_the_sentences_name_shares_assumption_and_check():
    text = " ".join(RECORD.describe("animal"))
    for part in ("cat 0.75 ± 0.02 (0.71 to 0.79)", "90%", "p(image | animal)", "300", "40%"):
        assert part in text
    assert "does not disagree" in text
    objected = dataclasses.replace(RECORD, agreement_p=0.001).describe("animal")[-1]
    assert "disagrees" in objected
    assert "0.7 instead of 0.75" in objected
