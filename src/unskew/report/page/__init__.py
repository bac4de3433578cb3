"""A summary -> one HTML file that needs no network.

- ``compare_page``: the page of `unskew compare`: two runs side by side.
- ``html``: the page: a `Summary` as one HTML file that requests nothing and runs only its own
  script.
- ``mixture_tables``: in which ratio the sources are mixed today, and in which the weights mix them.
- ``model_tables``: trained arms, the ways that one was chosen from, rehearsed sources.
- ``monitor_page``: the page of `unskew monitor`: verdict, evidence over time, changes, coverage.
- ``overlap_tables``: links between the sources as tables, and the weakest in one sentence.
- ``pairs_page``: the page of compared pairs: ROC, error rates, subgroups.
- ``panels``: what the panels of a page show besides figures.
- ``plots_columns``: small multiples: distributions of columns, and ω along a feature.
- ``plots_forecast``: the forecast: accuracy of every arm, gains, and class by class, in points
  from 0 to 100.
- ``plots_outcomes``: target means: both intervals, a forest plot of the sources, and the others
  without each.
- ``plots_overlap``: the links between sources: heat map, graph and tables.
- ``plots_rows``: figures by row: shares and normalizers of sources, balance of columns,
  sensitivity.
- ``plots_targets``: several targets: verdicts, outcomes by target, how far the weights differ.
- ``plots_weights``: the weights: histogram, concentration, and quantiles by source and by class.
- ``svg``: SVG by hand: elements, scales, axes, and a figure with its table.
- ``tables``: tables of a page, and numbers and names as a person reads them.
"""
