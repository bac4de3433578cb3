"""Test, resample and bound the weights before they are reported.

- ``outcomes``: which target means a report shows, and whether the sources agree on them.
- ``pool_diagnostics``: `diagnose`: the step between weighing and reporting; fit check, error
  bars, sensitivity.
- ``report``: diagnose and report in one call: `write_report`.
- ``target_comparison``: several targets compared: verdict of each, target means, and what hangs on
  the choice.
"""
