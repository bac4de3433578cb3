"""Do new images still look like those that the weights were solved on?

- ``change_evidence``: e-processes: evidence against "nothing has changed" that may be looked at
  every day.
- ``conformal_ranks``: ranks of new units among old ones, uniform as long as nothing has changed.
- ``judgement``: all streams judged together: `Monitoring`.
- ``monitor_words``: what the evidence means, and what to do about it, in sentences.
- ``reference_scores``: membership, weight and distance of an image, from one half of the old ones.
- ``sampled_units``: one image of every group, and those that were counted before.
- ``stream``: what new images are compared with, source by source; a batch that is counted.
- ``uncovered``: what the pool covers: levels, images that a source can produce, distances.
- ``variables``: what is compared: label, strata, features and scores, read from a table.
"""
