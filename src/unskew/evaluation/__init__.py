"""Models judged on the target: predictions and weights in memory → metrics with intervals.

- ``predictions``: the door, `evaluate_predictions`, and its result, `Evaluation`.
- ``matching``: predictions are read and joined to weights by id; what does not match is counted.
- ``columns``: which columns are which model's; truth and answers of every image.
- ``answers``: one column at a time: the truth, classes, scores, numbers.
- ``subgroups``: breakdowns by source, class and any column, and what privacy withholds.
- ``cells``: the figures of every cell of a breakdown.
- ``metrics``: weighted metrics of all cells and replicates at once.
- ``kernels_auroc``: the compiled loop behind AUROC.
- ``bootstrap``: replicates, intervals, differences of two models.
"""
