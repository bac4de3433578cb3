"""Normalizers -> one weight per image.

- ``agreement``: do the sources agree on a target mean? `compare_sources`; which of two intervals
  heads it.
- ``bootstrap``: replicates of weights: images (or groups) drawn again within sources, and solved
  again.
- ``calibrate``: move the weights as little as possible so that known facts about the target hold
  exactly.
- ``cell_contrasts``: sources compared within cells: strata, or images of equal memberships.
- ``compared_rows``: the rows whose sources are compared, and what the estimation of ω adds to
  their influence.
- ``count_covariance``: covariance of masses that follow the pool's own counts: every source is
  drawn again.
- ``curvature``: the curvature of the objective at the solution, as standard errors need it.
- ``doubly_robust``: target means augmented by an outcome model: right if the weights or the model
  are right.
- ``effective_size``: how many images carry the weights: effective sample size and tail.
- ``estimated_omega``: standard errors when ω was estimated, robust to groups.
- ``extreme_means``: the largest weighted mean when every weight may change by a factor, exactly,
  in O(n log n).
- ``known_margins``: known margins and means of the target, read from what a user passes and
  checked.
- ``margin_regression``: the generalised regression estimator: an outcome model on attributes whose
  shares on the target are known.
- ``methods``: what the methods of `Weights` compute: the one module that the record imports.
- ``new_images``: weights for images that were not in the pool, by the fitted bias model, without
  a new solve.
- ``new_source``: how far sources spread beyond their sampling errors, and what a source like none
  of these may measure.
- ``pool_comparison``: how much of the distance between weighted means and those of the plain pool
  may be noise.
- ``sampling_units``: what varies independently: images or groups, the strata they are drawn in,
  their spread.
- ``sensitivity``: how far a target mean may be off if selection differs from the model by an
  unknown factor.
- ``share_interval``: intervals of shares that rest on a few images.
- ``shrink``: weights drawn back towards the plain pool where they add more noise than they
  correct.
- ``solved_weights``: the door of the stage, ``debias_weights``; weights joined by id.
- ``source_contrasts``: what each source alone says of a target mean, after adjustment, with the
  joint error of all.
- ``tail_verdict``: whether the draw has shown enough of the target: a verdict on the weights
  themselves.
- ``target_predictions``: the target's mean of an outcome model's predictions, and what it rests on.
- ``stratified_spread``: the spread within strata, and what a stratum with a few images hides of
  it.
- ``trim``: cap the largest weights: less variance for some bias, with an account of both.
- ``uncertainty``: standard errors for known omega, robust to groups.
- ``unit_spread``: what each independent unit adds to weighted means.
- ``weights_table``: weights.parquet, its one writer and reader: every image with its roles and
  its weight.
"""
