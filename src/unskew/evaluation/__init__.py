"""Predictions and compared pairs judged with weights, in memory.

- ``answers``: one column at a time: the truth, classes, scores, numbers.
- ``bootstrap``: replicates, intervals, differences of two models.
- ``cells``: the figures of every cell of a breakdown.
- ``columns``: which columns are which model's; truth and answers of every image.
- ``kernels_auroc``: the compiled loops behind AUROC and average precision.
- ``label_breakdown``: the figures of every label of images with several.
- ``label_columns``: truth and answers of images with several labels: y_<label>, score_<label>.
- ``matching``: predictions are read and joined to weights by id; what does not match is counted.
- ``metric_families``: the metrics that suit the truth: classes, numbers, or sets of labels.
- ``metric_value``: one metric in one cell, with its interval: `MetricValue`.
- ``metrics``: weighted metrics of all cells and replicates at once.
- ``multi_label``: metrics of sets of labels: by label, macro, micro, worst.
- ``pair_cells``: the figures of all pairs and of every subgroup, and the gaps between subgroups.
- ``pair_equal_error``: the equal error rate, with its interval.
- ``pair_intervals``: intervals of error rates, of differences, and at estimated thresholds.
- ``pair_rates``: false match and non-match rates, the ROC, and how rates vary together.
- ``pair_table``: compared pairs are read, checked, joined to weights by id, and weighed.
- ``pairs``: the door, `evaluate_pairs`, and its result, `PairEvaluation`.
- ``predictions``: the door, `evaluate_predictions`, and its result, `Evaluation`.
- ``ranking``: images ranked by a score, for AUROC and average precision.
- ``source_agreement``: means over images compared between sources, after adjustment.
- ``subgroups``: breakdowns by source, class and any column, and what privacy withholds.
- ``target_images``: figures augmented by the model's confidence on images of the target.
- ``training_noise``: several trainings of one model: how far their figures vary.
"""
