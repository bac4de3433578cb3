"""The accuracies that the article prints, in points.

{(data set, key of the setting): (mean, two standard deviations)}.

Tables 1 to 3 of the article; ResNet-56, 8 runs. "ref" is its reference, trained on the whole
training split; other keys are those of `paper.table_settings`.
"""

from __future__ import annotations

RUNS = 8
PRINTED: dict[tuple[str, str], tuple[float, float]] = {
    ("cifar10", "ref"): (92.93, 0.47),
    ("cifar100", "ref"): (69.77, 1.12),
    # Overlapping classes, by γ.
    ("cifar10", "classes-0.001"): (89.96, 2.15),
    ("cifar10", "classes-0.01"): (90.51, 1.72),
    ("cifar10", "classes-0.1"): (90.97, 1.64),
    ("cifar10", "classes-0.2"): (91.02, 1.64),
    ("cifar100", "classes-0.001"): (62.00, 6.73),
    ("cifar100", "classes-0.01"): (63.66, 3.66),
    ("cifar100", "classes-0.1"): (65.08, 0.74),
    ("cifar100", "classes-0.2"): (64.96, 1.96),
    # Image acquisition, balanced.
    ("cifar10", "acquisition-0.1"): (54.86, 3.16),
    ("cifar10", "acquisition-1"): (80.43, 1.15),
    ("cifar10", "acquisition-10"): (79.85, 6.09),
    ("cifar100", "acquisition-0.1"): (11.22, 1.11),
    ("cifar100", "acquisition-1"): (37.71, 3.68),
    ("cifar100", "acquisition-10"): (38.20, 3.31),
    # Image acquisition, n_k ∝ 0.75^k.
    ("cifar10", "acquisition-0.1-0.75"): (32.49, 8.71),
    ("cifar10", "acquisition-1-0.75"): (61.86, 6.21),
    ("cifar10", "acquisition-10-0.75"): (60.53, 4.88),
    ("cifar100", "acquisition-0.1-0.75"): (6.40, 1.61),
    ("cifar100", "acquisition-1-0.75"): (19.35, 1.47),
    ("cifar100", "acquisition-10-0.75"): (19.95, 4.16),
}
