"""Stage 2: an image as a few numbers."""
