"""Stage 7: everything on one page."""
