"""How long work runs: blocks of rows, threads, a progress bar; arguments checked.

- ``annotation_rules``: the rule that an annotation states: what a value must be, and how to say
  it.
- ``arguments``: arguments of public functions, checked against their annotations: `checked`.
- ``frames``: tables and columns of other packages, read as pandas reads them.
- ``numba_import``: Numba without the settings of the working directory.
- ``parent_watch``: processes that end when the one that started them does.
- ``patterns``: regular expressions of the user, stopped where one would search for ever.
- ``progress``: one progress bar: count, rate and time left.
- ``row_blocks``: row blocks: what a matrix must offer to be read in pieces, and readers.
- ``threads``: threads of this machine.
"""
