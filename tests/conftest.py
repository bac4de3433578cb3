"""Settings that all tests share."""

from hypothesis import settings

# Shared machines are slow at random moments, and the first call of a compiled kernel is: a deadline would fail for no fault of ours.
# Derandomised, so that a test passes or fails by the code alone; new examples come when a test changes.
settings.register_profile("unskew", deadline=None, derandomize=True)
settings.load_profile("unskew")
