"""How far weights can be trusted, computed before a report is written.

- ``pool_diagnostics`` : `diagnose`, everything below in one record
- ``model_fit`` : the test of fit; ``error_bars`` : of the normalizers
- ``outcomes`` : which target means to bound; ``outcome_ranges`` : their sensitivity to c(z)
- ``report`` : `write_report`, diagnose and report in one call
"""
