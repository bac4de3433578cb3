"""The scikit-learn door.

- ``debiased``: the scikit-learn door: `DebiasedClassifier` and `DebiasedRegressor`.
- ``held_out``: models and the images that they have not seen: cross-fitting for scores on the
  target.
- ``pool_from_xy``: from what a scikit-learn user has (X, y, source …) to a `Pool`.
- ``target_score``: scores on the target from held-out images: any score as a weighted mean over
  images.
- ``target_weights``: one target weight for every image: debiasing × design weights, calibrated to
  known moments.
"""
