"""`unskew train`, on files.

- ``folder``: the output folder of a training: which run it holds, whether another may replace it.
- ``inputs``: what `unskew train` learns from and compares: pixels or features, classes, splits,
  arms.
- ``model_card``: the facts of the model card; its text is in ``templates/``.
- ``other_images``: other images evaluated with the model of a run: `evaluate_images`.
- ``result``: a training before and after: what is about to happen, and what came out, with scores
  of every arm.
- ``run``: reads and weighs (`prepare_training`), then trains and evaluates (`run_training`).
"""
