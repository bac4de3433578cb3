"""What the methods of `Target` compute: the one module that `records/target.py` imports.

Importing it loads NumPy and SciPy only; pandas is loaded by the functions that read tables.
"""

from unskew.target.building import margins_target as margins_target
from unskew.target.building import sample_target as sample_target
from unskew.target.building import source_target as source_target
from unskew.target.building import table_target as table_target
from unskew.target.building import uniform_target as uniform_target
from unskew.target.predictions import predictions_target as predictions_target
from unskew.target.resolution import find_reference as find_reference
from unskew.target.resolution import stratify_pool as stratify_pool
from unskew.target.settings import read_target as read_target
from unskew.target.settings import target_sentences as target_sentences
from unskew.target.settings import written_target as written_target
