"""What a `Target` computes.

- ``building``: the ways to define a target by facts, and their options, checked before any pool
  is seen.
- ``calibration_design``: families of calibrations as linear models, with the sums that a fit
  needs.
- ``classifier_scores``: the scores of a classifier as users give them: read, checked, and as
  logarithms.
- ``counted_masses``: how masses depend on the pool's own counts: raked interactions, and levels
  kept at their pool share.
- ``facts``: margins and joint tables as distributions over levels; levels in bins.
- ``interactions``: odds ratios that all sources share: the log-linear model without source ×
  interaction.
- ``label_shift``: the shares of the classes in unlabelled images, from calibrated scores:
  mathematics only.
- ``label_shift_record``: shares of a target that were estimated from a classifier's scores: the
  record, in sentences.
- ``margin_set``: a margin that is known up to a set: smallest and largest masses.
- ``mass_covariance``: covariance of the target's masses, and how raking and restriction change
  it: pure mathematics.
- ``methods``: what the methods of `Target` compute: the one module that `records/target.py`
  imports.
- ``predictions``: a target from the scores of a classifier on unlabelled images: its input, and
  the estimate.
- ``raking``: raking: the joint distribution nearest to a table of cells that has given margins.
- ``resolution``: a target meets a pool: the stratum of every image, the mass of every stratum,
  coverage.
- ``score_calibration``: scores of a classifier made honest on labelled images: temperature,
  slopes and intercepts.
- ``settings``: a target as the `[target]` part of a configuration, and in sentences.
- ``strata``: what a target is on a pool: strata with their masses, or a reference; masses of
  uncovered strata.
- ``tilting``: the smallest change of a distribution (Kullback–Leibler) that makes given means
  hold.
"""
