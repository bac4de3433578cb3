"""Databases with known bias, to rehearse on: drawn from clean images, written, compared with truth.

- ``databases``: databases drawn from a population by the scenarios of `unskew.scenarios`.
- ``files``: a simulation as files, with its truth and a configuration.
- ``truth``: how close the weights of a run are to the truth.
- ``digits``: the data of `unskew demo`, handwritten digits seen by three cameras.
"""
