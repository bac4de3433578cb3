"""Train, validation and test; folds.

- ``assignment``: train, validation and test: splits that keep groups and copies together.
- ``folds``: which images may not be separated, and folds that keep them together.
- ``holdout``: which images of a reference judge and do not fit: whole groups and copies, at random.
"""
