"""Parts of a pool that keep together what belongs together.

`assignment` makes, reads and checks train, validation and test; `folds` makes folds and finds
copies of an image.
"""
