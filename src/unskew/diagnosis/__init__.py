"""Test, resample and bound the weights before they are reported; advise what to collect.

- ``advice``: `advise_collection`: which images, and how many, bring errors to a wanted level.
- ``advice_record``: goals, ways to reach each, and what stands in the way; as text and as JSON.
- ``collectables``: what can be collected: sources, strata, classes, images of the target.
- ``collection_search``: the smallest collection that reaches every goal, and the cheapest mix.
- ``expected_problem``: what further images would do to errors, effective size and links.
- ``inline_report``: weights in a notebook: their card, and the whole page inline.
- ``missing_links``: which links make a disconnected overlap graph strongly connected.
- ``outcomes``: which target means a report shows, and whether the sources agree on them.
- ``pool_diagnostics``: `diagnose`: the step between weighing and reporting; fit check, error
  bars, sensitivity.
- ``report``: diagnose and report in one call: `write_report`.
- ``target_comparison``: several targets compared: verdict of each, target means, and what hangs on
  the choice.
"""
