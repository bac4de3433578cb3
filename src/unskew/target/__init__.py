"""What a `Target` computes.

- ``building``: the five ways to define a target, and their options, checked before any pool is
  seen.
- ``facts``: margins and joint tables as distributions over levels; levels in bins.
- ``holdout``: which images of a reference judge and do not fit: whole groups, at random.
- ``mass_covariance``: covariance of the target's masses, and how raking and restriction change
  it: pure mathematics.
- ``methods``: what the methods of `Target` compute: the one module that `records/target.py`
  imports.
- ``raking``: raking: the joint distribution nearest to a table of cells that has given margins.
- ``resolution``: a target meets a pool: the stratum of every image, the mass of every stratum,
  coverage.
- ``settings``: a target as the `[target]` part of a configuration, and in sentences.
- ``strata``: what a target is on a pool: strata with their masses, or a reference; masses of
  uncovered strata.
- ``tilting``: the smallest change of a distribution (Kullback–Leibler) that makes given means
  hold.
"""
