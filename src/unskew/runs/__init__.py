"""Runs: a configuration from its sources to the files of its output folder.

- ``pipeline``: `unskew.run`, the stages in their order.
- ``inputs``: the pool with its features, the target, the bias model, and where they come from.
- ``output``: the files of the output folder, and whether they may be written.
- ``first_look``: databases before there is a configuration: `unskew describe`, `unskew init`.
- ``splits``: `unskew split`: train, validation and test as a table.
- ``evaluate``: predictions evaluated with the weights of a run, and metrics.json.
- ``probing``: forecast and rehearsal, made from the inputs of a run.
- ``forecast``: forecast.json, and its panel on the page of the run.
- ``verification``: a run computed again and every claim checked: `verify_run`.
- ``differences``: values and tables compared, every difference named.
- ``export_tables``: weights as CSV, JSONL and class weights: `export_weights`, `export_run`.
- ``export_images``: images with their weights as Hugging Face folders and WebDataset shards.
"""
