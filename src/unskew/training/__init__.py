"""`unskew train`: a model trained with the weights of a run, evaluated, with its card.

- ``run``: reads and weighs (`prepare_training`), then trains and evaluates (`run_training`).
- ``inputs``: what is trained on: pixels or features, classes, splits made where there are none.
- ``arms``: what is compared: debiasing weights, naive, baselines, weights of a table.
- ``folder``: what an output folder contains, and what may replace or continue it.
- ``preparation``: `Preparation`, and what is printed before the training.
- ``result``: `TrainingResult`, and what is printed after it.
- ``scores``: predictions of the held-out split, metrics of every arm, their differences.
- ``model_card``: the facts of the model card; its text is in ``templates/``.
- ``projections``: principal components of a run, kept for other images.
- ``other_images``: other images evaluated with the model of a run: `evaluate_images`.
"""
