"""Files: written atomically by one writer at a time, checksums, plain JSON, code that they name.

- ``addresses``: files at addresses such as ``s3://bucket/table.csv``: read, fetched, uploaded.
- ``atomic``: files and folders that are written completely or not at all.
- ``checksums``: `files.json`, by which the files of a results folder are known to be of one run.
- ``fingerprints``: SHA-256 of files and tables, and the versions of packages.
- ``leftovers``: names of unfinished files, and what dead processes left of them.
- ``locks``: one writer at a time; a second one is told who the first is.
- ``plain_json``: values as JSON can hold them; the one JSON writer.
- ``reading``: files as they are read: regular ones, within limits, damage as a `DataError`.
- ``row_file``: `RowFile`: rows of one shape in a temporary file, read and written by number.
- ``spreadsheet_text``: texts in CSV files that a spreadsheet must not run as formulas.
- ``user_code``: code that a file names: where its module is, whether it may run.
"""
