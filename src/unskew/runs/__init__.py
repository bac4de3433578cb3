"""A configuration -> results on disk.

- ``advice``: what to collect for a run: `unskew advise`.
- ``choose``: bias models ranked for a configuration: `unskew choose`.
- ``comparison``: two runs side by side: `unskew compare`.
- ``differences``: values and tables compared, every difference named.
- ``evaluate``: predictions evaluated with the weights of a run, and metrics.json.
- ``export_images``: images with their weights as Hugging Face folders and WebDataset shards.
- ``export_mixture``: images cut into cells of nearly one weight, and the shares to mix them in.
- ``export_tables``: weights as CSV, JSONL and class weights: `export_weights`, `export_run`.
- ``first_look``: databases before there is a configuration: `unskew describe`, `unskew init`.
- ``forecast``: a configuration looked at ahead of training: its forecast, and forecast.json.
- ``image_map``: map.parquet: every image as a point, with its weight, for tools that show images.
- ``inputs``: what a run works on: configuration, sources, features; and where all of it comes
  from.
- ``monitor``: `unskew monitor`: new images compared with those of a run, look after look.
- ``monitor_inputs``: what it reads: the images of a solved run from its folder, and new ones.
- ``output``: the files of the output folder, and whether they may be written.
- ``page_panels``: forecast.json and rehearsal.json on the page of a run.
- ``pairs``: compared pairs judged with the weights of a run; pairs.json and pairs.html.
- ``part_images``: representations of images behind parts, computed by an engine.
- ``part_inputs``: sources in Parquet parts: read into an ordinary pool, or, beyond the subsample,
  left in parts.
- ``part_plan``: what a run over parts will do, told before: `unskew weigh --dry-run`.
- ``part_run``: a run over Parquet parts: totals of all images, the page of the subsample, weights
  in parts.
- ``part_verification``: weights in parts, checked part by part: every one is computed again from
  its input.
- ``pipeline``: `unskew.run`, the stages in their order.
- ``projections``: projections.npz: the components of embeddings, for other images.
- ``rehearsal``: each source in turn as the target of the others, and rehearsal.json.
- ``splits``: `unskew split`: train, validation and test as a table.
- ``verification``: a run computed again and every claim checked: `verify_run`.
"""
