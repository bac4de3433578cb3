"""Files that only an environment with transformers can import, even to look for doctests."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("transformers") else ["trainer_process.py"]
