"""The seven files of `SoftBox`: the model, its search, likelihood, test and compiled loops.

`model` is the family; `fit` fits it: `search` chooses which edges are finite, `likelihood` climbs
to the maximum, `permutation` tests against none. `kernels_boxes`, `kernels_likelihood` and
`kernels_information` are the loops over images, compiled by Numba.
"""
