"""Which bias model: `choose_bias`.

- ``candidates``: one bias model among several: fitted, scored and checked, or why it could not
  be.
- ``choice``: the candidates, ranked, and the one that is chosen.
- ``class_membership``: held-out memberships where images of the target have no labels and the
  model reads them.
- ``decision``: which candidate is chosen, why, and what speaks against it.
- ``membership_score``: the score that compares families: how well a bias model tells, on images
  it was not fitted on, which source each comes from.
- ``proposal``: candidates where none is named.
- ``ranking``: bias models compared on what the images, and known facts about the target, can
  tell: `choose_bias`.
- ``table``: candidates compared with the best score: a ranked table for programs and for
  terminals.
- ``target_distance``: how far the weighted pool is from known facts: shares of levels, means of a
  sample.
"""
