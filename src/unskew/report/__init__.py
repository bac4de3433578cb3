"""Everything on one page.

- ``files``: the files of a report: `report.html` and `report.json`.
- ``page``: a summary -> one HTML file that needs no network.
- ``summary``: a diagnosed run -> plain numbers and sentences.
"""
