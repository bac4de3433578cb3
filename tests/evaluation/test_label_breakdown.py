"""Labels one by one: those of few images are withheld."""

from __future__ import annotations

from evaluation.judging import judge, make_sets, values


def test_privacy_withholds_labels_of_few() -> None:
    table, predictions, _ = make_sets()
    rare = table.assign(
        label=[[*value, *(["rare"] if at < 4 else [])] for at, value in enumerate(table["label"])]
    )
    evaluation = judge(rare, predictions.assign(score_rare=0.2), private=True)
    assert "rare" not in str(evaluation.to_dict())
    assert evaluation.breakdown("label").withheld == 1
    assert values(evaluation)["macro_auroc"] == values(judge(table, predictions))["macro_auroc"]
