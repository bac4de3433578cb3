"""What the methods of `Target` compute: the one module that `records/target.py` imports.

Importing it loads NumPy and SciPy only; pandas is loaded by the functions that read tables.
"""

from unskew.target.building import (
    margins_target,
    sample_target,
    source_target,
    table_target,
    uniform_target,
)
from unskew.target.predictions import predictions_target
from unskew.target.resolution import find_reference, stratify_pool
from unskew.target.settings import read_target, target_sentences, written_target

__all__ = [
    "find_reference",
    "margins_target",
    "predictions_target",
    "read_target",
    "sample_target",
    "source_target",
    "stratify_pool",
    "table_target",
    "target_sentences",
    "uniform_target",
    "written_target",
]
