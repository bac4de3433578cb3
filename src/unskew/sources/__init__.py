"""Stage 1: image databases into a `Pool`."""
