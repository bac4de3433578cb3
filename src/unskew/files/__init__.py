"""Files: written atomically, plain JSON, fingerprints.

- ``atomic``: files and folders that are written completely or not at all.
- ``fingerprints``: SHA-256 of files and tables, and the versions of packages.
- ``plain_json``: values as JSON can hold them; the one JSON writer.
- ``row_file``: `RowFile`: rows of one shape in a temporary file, read and written by number.
"""
