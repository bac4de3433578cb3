"""`unskew train`, on files.

- ``arm_scores``: arms judged on the same images, with paired differences: `judge_arms`.
- ``folder``: the output folder of a training: which run it holds, whether another may replace it.
- ``inputs``: what `unskew train` learns from and compares: pixels or features, classes, splits,
  arms.
- ``learnable``: classes that train cannot teach: splits are changed, or refused.
- ``model_card``: the facts of the model card; its text is in ``templates/``.
- ``other_images``: other images evaluated with the models of a run: `evaluate_images`.
- ``pixels``: the pixels that a network is trained on: every image as a square.
- ``result``: a training before and after: what is about to happen, and what came out.
- ``run``: reads and weighs (`prepare_training`), then trains and evaluates (`run_training`).
"""
