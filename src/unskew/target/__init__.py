"""What a `Target` computes: facts read and checked, and the mass of every stratum of a pool.

`methods` is what the methods of `Target` call. `building` makes targets of margins and tables
(`facts`, `levels`), `schema` of a configuration. `resolution` applies a target to a pool: the cells
of the pool (`pool_cells`), their masses (`cell_masses`: given, or raked by `raking` and `tilting`,
with errors from `mass_covariance`), put together as `strata`. `holdout` chooses images that judge,
`wording` writes the sentences.
"""
