"""Everything on one page.

- ``files``: the files of a report: `report.html` and `report.json`.
- ``notebook``: records as HTML in a notebook: verdict, and one or two figures of the page.
- ``page``: a summary -> one HTML file that needs no network.
- ``summary``: a diagnosed run -> plain numbers and sentences.
"""
