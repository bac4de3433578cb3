"""Stage 7, everything on one page: weighted tables and drawings, no statistics.

``files`` writes report.html and report.json; ``summary`` makes the record, ``page`` draws it.
"""
