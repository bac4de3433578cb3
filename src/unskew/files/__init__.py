"""Files: written atomically, as plain JSON, and fingerprinted.

- ``atomic``: files and folders that are written completely or not at all.
- ``plain_json``: values as JSON can hold them; the one JSON writer.
- ``fingerprints``: SHA-256 of files and tables, and the versions of packages.
"""
