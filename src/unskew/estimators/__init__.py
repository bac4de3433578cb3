"""The scikit-learn door.

- ``debiased``: the scikit-learn door: `DebiasedClassifier` and `DebiasedRegressor`.
- ``dialled_fit``: a scikit-learn estimator fitted in one of the ways.
- ``held_out``: models and the images that they have not seen: cross-fitting for scores on the
  target.
- ``pool_from_xy``: from what a scikit-learn user has (X, y, source …) to a `Pool`.
- ``record_params``: parameters that are plain dataclasses, whose fields a grid search reaches by
  name.
- ``target_score``: scores on the target from held-out images: any score as a weighted mean over
  images.
- ``target_weights``: one target weight for every image: debiasing × design weights, calibrated to
  known moments.
- ``way_trials``: which way suits an estimator: two of them tried out on half of the images.
"""
