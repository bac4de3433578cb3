"""Stage 2: an image as a few numbers.

Doors: ``pool_features`` (`represent_images`), ``content`` (hashes of images), ``square_pixels``
(pixels to train on).

Representations: ``base`` is their contract, ``naming`` finds them by name; ``color``, ``texture``
(both by ``kernels_pixels``), ``dimensions``, ``exif``, ``user_functions``, ``embedding`` (by
``embedding_models``, ``networks``, ``efficientnet`` and ``projection``).

Machinery: ``decode`` turns files into pixels, ``image_tasks`` is the work on some images,
``workers`` runs all of it in threads and ``processes``, ``feature_cache`` remembers the results.
"""
