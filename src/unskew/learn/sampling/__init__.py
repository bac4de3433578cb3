"""Which images an epoch shows: drawn in proportion to their weights.

- ``sampler``: `WeightedSampler`: weighted sampling for torch's DataLoader, also in distributed
  training.
- ``sampling_schemes``: which images an epoch shows, and how often: systematic, multinomial, or
  without replacement.
- ``weighted_dataset``: `WeightedDataset`: a dataset whose items are the draws of an epoch, for any
  sampler to shuffle.
"""
