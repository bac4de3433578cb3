"""How long work runs: blocks of rows, engines, threads, a progress bar; arguments checked.

Beyond one machine: a pool over Parquet parts is cut into blocks (`FileBlock`), references of a few
numbers that never travel with data. A stage hands a module-level pure function, the blocks and a
small state to ``engine.map_blocks(function, blocks, state, *, setup=None, resources=None)`` and
gets small results, in order. Behind it are threads or processes of this machine, any
`concurrent.futures.Executor`, or Dask; no stage knows which. Sums are added in the order of the
blocks, so that results do not depend on the engine or the number of workers, and on the size of
blocks only by rounding. What is written are files, each with a marker of completion; what several
passes read is decoded once and kept on the worker's own disk. Nothing is persisted in an engine's
memory.

- ``annotation_rules``: the rule that an annotation states: what a value must be, and how to say
  it.
- ``arguments``: arguments of public functions, checked against their annotations: `checked`.
- ``block_engines``: engines: where blocks are computed. `Engine.map_blocks` is the whole contract.
- ``blocks``: `FileBlock`: a reference to rows of a Parquet file that never travels with its data;
  its reader.
- ``compilation``: when loops are compiled, how, and where the machine code is kept.
- ``dask_engine``: blocks computed by Dask: an existing scheduler's address or `Client`, or a local
  cluster.
- ``frames``: tables and columns of other packages, read as pandas reads them.
- ``parent_watch``: processes that end when the one that started them does.
- ``patterns``: regular expressions of the user, stopped where one would search for ever.
- ``progress``: one progress bar: count, rate and time left.
- ``row_blocks``: row blocks: what a matrix must offer to be read in pieces, and readers.
- ``threads``: threads of this machine.
- ``written_blocks``: blocks that are written: one file for each, with a marker that says it is
  complete.
"""
