"""Stage 1: image databases into a `Pool`.

Doors: ``settings`` reads the ``[sources]`` part of a configuration and a target sample, ``readers``
serves the methods of `Pool`, ``discovery`` makes settings of paths on the command line (by
``column_guessing``), ``description`` counts what is in a pool.

Readers: ``folder`` (by ``listing`` and ``metadata``), ``manifest`` (by ``tables`` and ``coco``),
``arrays``, ``cifar`` (by ``cifar_files`` and ``pickled_arrays``), ``huggingface``, ``dataset``.

Shared: ``files`` (images in files), ``pixels`` (images in memory), ``ids``, ``labels``, ``roles``.
"""
