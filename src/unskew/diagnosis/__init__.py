"""Test, resample and bound the weights before they are reported.

- ``pool_diagnostics``: `diagnose`: the step between weighing and reporting; fit check, error
  bars, sensitivity.
- ``report``: diagnose and report in one call: `write_report`.
"""
