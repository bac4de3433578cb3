"""A pool, its weights and their diagnostics → the record that a page shows.

The record and how it is made:

- ``record`` : what a page shows, `Summary`; ``plain`` : as report.json and back
- ``summarize`` : of a run; ``refusal`` : of a run that was refused
- ``weighted_pool`` : images joined to weights, what every panel is made from

Panels:

- ``verdict_words``, ``source_table``, ``stratum_table``, ``overlap_panel``, ``weights_panel``
- ``columns`` : levels and bins; ``columns_against_target`` : with what the target gives;
  ``column_balance`` : shown cells and standardised differences; ``not_corrected``
- ``bias_panel`` and ``omega_curves`` : the model; ``forecast_panel`` : the expected gain
- ``gallery``, ``thumbnails`` and ``copies`` : images; ``splits`` and ``adjustments``

Privacy:

- ``privacy`` : the rule; ``suppression`` : which cells are withheld; ``wording`` : sentences
"""
