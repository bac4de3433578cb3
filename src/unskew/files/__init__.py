"""Files: written atomically, plain JSON, fingerprints; code that they name.

- ``atomic``: files and folders that are written completely or not at all.
- ``fingerprints``: SHA-256 of files and tables, and the versions of packages.
- ``plain_json``: values as JSON can hold them; the one JSON writer.
- ``reading``: files as they are read: regular ones, within limits, damage as a `DataError`.
- ``row_file``: `RowFile`: rows of one shape in a temporary file, read and written by number.
- ``spreadsheet_text``: texts in CSV files that a spreadsheet must not run as formulas.
- ``user_code``: code that a file names: where its module is, whether it may run.
"""
