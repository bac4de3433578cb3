"""What reweighting will bring, before training.

- ``arms``: the arms of a forecast: naive, the ways of the debiasing weights, baselines, the
  user's own.
- ``cross_fitting``: arms trained on all folds but one and tested on that one; what training on
  fewer images costs.
- ``gain``: the gain of reweighting, predicted before training: `forecast_gain`.
- ``label_arms``: a forecast for images with any number of labels: each label as two classes,
  absent and present.
- ``learners``: what a forecast trains: the linear probe, or clones of a scikit-learn classifier.
- ``probe_data``: what a probe learns from: features, labels as codes, and which images stay
  together.
- ``record``: what is expected of each arm on the target: from hits on held-out images to
  accuracies.
- ``rehearsal``: a test of the bias model on your data: each source in turn is the target, and
  what is predicted there is compared with the truth.
- ``rehearsal_record``: the result of a rehearsal: predicted against true accuracy for each
  source, and the verdict.
- ``sentences``: a forecast as sentences: the verdict with its reason, and the lines that are
  printed.
- ``tuning``: what is chosen before arms are compared: the ridge of every probe, and the way to
  learn.
"""
