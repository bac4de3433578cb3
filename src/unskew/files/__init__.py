"""Files: written atomically by one writer at a time, their checksums, plain JSON, fingerprints.

- ``atomic``: files and folders that are written completely or not at all.
- ``checksums``: `files.json`, by which the files of a results folder are known to be of one run.
- ``fingerprints``: SHA-256 of files and tables, and the versions of packages.
- ``leftovers``: names of unfinished files, and what dead processes left of them.
- ``locks``: one writer at a time; a second one is told who the first is.
- ``plain_json``: values as JSON can hold them; the one JSON writer.
"""
