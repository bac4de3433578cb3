"""Image databases -> `Pool`.

- ``address_images``: images at addresses such as ``s3://bucket/a.jpg``.
- ``arrays``: images in arrays: in memory, or in ``.npz`` files.
- ``cifar``: CIFAR-10 and CIFAR-100 as their authors distribute them, pickled or binary.
- ``cifar_files``: the files of the official CIFAR archives: names and checksums; finding and
  fetching them.
- ``coco``: COCO and COCO Camera Traps: one row for each image, its categories as labels.
- ``column_guessing``: the likely roles of the columns of a table or dataset, judged by their
  names alone.
- ``dataset``: datasets like those of torch: a length, and items (image, label) or {"image": …,
  "label": …}.
- ``description``: what is in a pool, as plain numbers: the record behind ``unskew describe``.
- ``discovery``: folders and files named on the command line -> the ``[sources]`` part of a
  configuration.
- ``feature_tables``: numbers that were computed elsewhere, such as embeddings: tables joined to the
  images by id.
- ``files``: image files: listed without opening one, read as bytes, or the reason why not.
- ``folder``: folders of images, classes in subfolders, with the table next to the images.
- ``huggingface``: Hugging Face datasets: an object, a folder, or a name; images stay encoded
  until needed.
- ``label_sets``: images with any number of labels: a list for each, or columns of 0 and 1 with
  gaps.
- ``manifest``: a table that lists the images: the path of each, and what is known of it.
- ``parquet_parts``: folders and globs of Parquet parts -> a pool over them, with every part's
  footer checked.
- ``part_pool``: `PartPool`: a pool over Parquet parts, which is read block by block and never as a
  whole.
- ``part_survey``: one pass over the parts of a pool: sources, strata and their counts; ids that
  occur twice.
- ``parts_beside``: Parquet parts with more columns of the same images, such as embeddings; columns
  of vectors.
- ``pickled_arrays``: pickles that hold plain values and NumPy arrays, read without running
  anything of theirs.
- ``pixels``: any image in memory -> encoded bytes, or 8-bit numbers (height, width[, 1, 3 or 4]).
- ``readers``: the readers of image databases: by kind, and by the `[sources]` part of a
  configuration.
- ``roles``: which columns are source, label and group; ids that stay the same.
- ``shards``: WebDataset shards -> Parquet parts that say where each image is within its archive.
- ``tables``: tables in files (CSV, TSV, JSONL, JSON records, Parquet), read without guessing.
"""
