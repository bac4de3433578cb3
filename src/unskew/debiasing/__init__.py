"""bias -> solve -> weigh in one call.

- ``estimation``: what `debias` leaves behind: the rows of a fit, for errors that count the
  estimation of omega, new images and refits.
- ``fitted_weights``: weights of a fitted model, with their verdict.
- ``margin_sets``: the range of a target mean over a set of margins: `bound_over_margins`.
- ``outcome_model``: an outcome model for doubly robust means, cross-fitted on the images of the
  pool.
- ``part_debias``: `debias` over parts: learn on a subsample, stream to apply.
- ``part_descent``: the fit to all rows of a pool over parts, by Newton's method from that of the
  subsample.
- ``part_run``: one call of `debias` over parts: its inputs, the subsample, and what comes of it.
- ``part_strata``: strata over parts: one pass that counts, one that writes; nothing is sampled.
- ``part_sums``: sums over the rows of all parts: one pass each, on any engine.
- ``part_weighers``: what weighs the images of one block: small, sent to every worker, and enough
  for new images.
- ``part_weights``: `PartWeights`: the weights of a pool over parts, which are never collected.
- ``part_writing``: the files of the weights of a pool over parts: one Parquet part for each part of
  the pool.
- ``pool_weights``: bias -> solve -> weigh in one call, for a pool and for each of its splits.
- ``several_targets``: weights for several targets, the worst case, and what hangs on the choice:
  `debias_targets`.
- ``target_difference``: the difference of a mean between two targets, from the same images.
- ``train_fit``: the bias model as fitted on train, applied to the images of another split.
- ``unused_masses``: targets whose masses of strata the bias model cannot use.
"""
