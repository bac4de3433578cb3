"""A diagnosed run -> plain numbers and sentences.

- ``adjustment_words``: how the weights were adjusted after they were solved, in sentences.
- ``bias_panel``: the bias model: its assumptions and estimates, its fit, and omega along each
  feature.
- ``column_balance``: distributions of pool, weighted pool and target, and what is not corrected.
- ``columns``: columns as a report shows them: numbers in bins with round edges, everything else
  by level.
- ``forecast_panel``: a forecast, as `forecast.json` holds it, becomes a panel of the page.
- ``forecast_record``: that panel: a part of `report.json`.
- ``gallery``: which images are worth looking at, and their thumbnails.
- ``mixture_panel``: in which ratio to mix the sources, and what one number per source misses.
- ``mixture_record``: in which ratio the sources are mixed: a part of `report.json`.
- ``outcome_record``: a target mean on the page, with what each source says of it, and on each of
  several targets: a part of `report.json`.
- ``outcomes_panel``: target means with what each source says of them: which interval heads, and
  why, in words.
- ``plain``: a record as plain values and back: what `report.json` holds.
- ``privacy``: what a private report withholds: the rule, small cells, counts in sentences.
- ``record``: what a page shows, as plain numbers and texts: `report.json` is this record.
- ``refusal``: the page of a run that was refused: what is missing, and what to do about it.
- ``source_table``: the tables of sources and splits, exact copies, and images that could not be
  read.
- ``stratum_table``: the strata of the target: how much of it each is, how much of the pool, and
  who sees it.
- ``summarize``: a pool and its weights → the summary of a page.
- ``rehearsal_panel``: a rehearsal, as `rehearsal.json` holds it, becomes a panel of the page.
- ``rehearsal_record``: a rehearsal on the page: a part of `report.json`.
- ``training_record``: the models of a training on the page: a part of `report.json`.
- ``verdict_words``: the verdict with its reasons and next steps.
- ``weighted_pool``: a pool joined to its weights by id, and its columns with what the target says
  of them.
- ``weights_panel``: the spread and concentration of the weights, and the links between sources.
"""
