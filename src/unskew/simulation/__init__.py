"""Biased databases as files, with their truth.

- ``databases``: databases drawn from a population by the scenarios of `unskew.scenarios`.
- ``digits``: the data of `unskew demo`, handwritten digits seen by three cameras.
- ``files``: a simulation as files: databases (a manifest or folders), their truth, and a
  configuration.
- ``truth``: how close the weights of a run are to the truth.
"""
