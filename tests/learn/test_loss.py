"""`WeightedLoss`: the identities of weights, unbiased minibatches, and the same expectation as the
sampler's.
"""

from __future__ import annotations

import functools
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError, DataError

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from unskew.learn import WeightedLoss, WeightedSampler, settings_of, turn_dial  # noqa: E402
from unskew.learn.loss import make_batch_loss, smoothed_cross_entropy  # noqa: E402

N, D, C = 12, 4, 3
RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.normal(size=(N, D)))
Y = torch.from_numpy(RNG.integers(0, C, N))
# Whole numbers, so that an image of weight two can be repeated; their mean is no whole number.
WEIGHT = np.array([0, 1, 2, 3, 1, 0, 4, 1, 1, 2, 1, 1.0])
ROWS = torch.arange(N)


def _gradient(loss, rows) -> torch.Tensor:
    """Of a linear model at a fixed place."""
    theta = torch.linspace(-1, 1, D * C, dtype=torch.float64).reshape(D, C).requires_grad_()
    loss(X[rows] @ theta, Y[rows], rows).backward()
    return theta.grad


def _plain(rows) -> torch.Tensor:
    """Of the plain mean over images that are drawn or repeated."""
    return _gradient(lambda prediction, truth, _: functional.cross_entropy(prediction, truth), rows)


@pytest.fixture
def criterion() -> WeightedLoss:
    return WeightedLoss(functional.cross_entropy, WEIGHT)


def test_the_loss_of_all_images_is_the_weighted_mean(criterion: WeightedLoss) -> None:
    prediction = X @ torch.ones(D, C, dtype=torch.float64)
    losses = functional.cross_entropy(prediction, Y, reduction="none").numpy()
    assert criterion(prediction, Y, ROWS).item() == pytest.approx(
        WEIGHT @ losses / WEIGHT.sum(), rel=1e-14
    )


def test_zero_is_removed_and_two_is_repeated_in_value_and_gradient(criterion: WeightedLoss) -> None:
    repeated = torch.from_numpy(np.repeat(np.arange(N), WEIGHT.astype(int)))
    torch.testing.assert_close(_gradient(criterion, ROWS), _plain(repeated), rtol=1e-13, atol=1e-15)


def test_sums_are_exact() -> None:
    """Losses and weights that binary fractions hold: Σ v_i ℓ_i is the sum over repeated images, to
    the last bit.
    """
    losses = torch.tensor([3.0, 0.5, 7.25, 1.0], dtype=torch.float64)
    criterion = WeightedLoss(lambda prediction, truth: prediction, [0.0, 1.0, 2.0, 1.0])
    assert criterion(losses, None, torch.arange(4)).item() * 4 == 0.5 + 7.25 + 7.25 + 1.0


def test_ones_are_the_plain_mean_and_a_common_factor_changes_nothing(
    criterion: WeightedLoss,
) -> None:
    for weight in (1.0, 0.3, 1e300, 1e-300):
        torch.testing.assert_close(
            _gradient(WeightedLoss(functional.cross_entropy, np.full(N, weight)), ROWS),
            _plain(ROWS),
        )
        scaled = WeightedLoss(functional.cross_entropy, WEIGHT * weight)
        torch.testing.assert_close(
            _gradient(scaled, ROWS), _gradient(criterion, ROWS), rtol=1e-12, atol=0
        )


def test_minibatches_are_unbiased(criterion: WeightedLoss) -> None:
    """The mean over all batches of two is the full gradient; dividing by the weights of the batch
    is off by a lot.
    """
    full = _gradient(criterion, ROWS)
    batches = [torch.tensor(rows) for rows in itertools.combinations(range(N), 2)]
    mean = torch.stack([_gradient(criterion, rows) for rows in batches]).mean(0)
    torch.testing.assert_close(mean, full, rtol=1e-12, atol=1e-14)

    def by_weight_sum(prediction, truth, rows):
        weight = torch.from_numpy(WEIGHT)[rows]
        return (
            weight * functional.cross_entropy(prediction, truth, reduction="none")
        ).sum() / weight.sum().clamp(min=1e-9)

    biased = torch.stack([_gradient(by_weight_sum, rows) for rows in batches]).mean(0)
    assert (biased - full).norm() > 0.02 * full.norm()


def test_its_gradient_is_in_expectation_that_of_the_sampler(criterion: WeightedLoss) -> None:
    """With mπ_i whole the systematic sample gives it exactly; else the mean over epochs does,
    within its standard error.
    """
    full = _gradient(criterion, ROWS)
    exact = WeightedSampler(WEIGHT, size=int(WEIGHT.sum()) * 2)
    torch.testing.assert_close(_plain(torch.tensor(list(exact))), full, rtol=1e-12, atol=1e-14)
    single = torch.stack([_plain(torch.tensor([row])) for row in range(N)])
    spread = {}
    for scheme in ("systematic", "multinomial"):
        sampler = WeightedSampler(WEIGHT, size=7, scheme=scheme)
        gradients = torch.stack([single[list(sampler)].mean(0) for _ in range(800)])
        error = gradients.std(0) / len(gradients) ** 0.5
        assert ((gradients.mean(0) - full).abs() / error).max() < 4.5  # of 12 numbers, two-sided
        spread[scheme] = gradients.var(0).sum()
    assert spread["systematic"] < spread["multinomial"]


def test_nothing_of_an_image_of_weight_zero_comes_through() -> None:
    """A loss of infinity or NaN times zero would be NaN, and its gradient too."""
    criterion = WeightedLoss(
        lambda prediction, truth: prediction[:, 0].log() * truth, [0.0, 1.0, 0.0, 1.0]
    )
    prediction = torch.tensor([[0.0], [2.0], [-1.0], [4.0]], requires_grad=True)
    value = criterion(prediction, torch.tensor([1.0, 1.0, float("nan"), 1.0]), torch.arange(4))
    value.backward()
    assert value.item() == pytest.approx(np.log(8) / 2)
    assert prediction.grad.flatten().tolist() == [0.0, 0.25, 0.0, 0.125]


@pytest.mark.parametrize(
    ("loss", "prediction", "truth"),
    [
        (torch.nn.CrossEntropyLoss(reduction="none"), X @ torch.ones(D, C, dtype=torch.float64), Y),
        (
            functools.partial(functional.cross_entropy, label_smoothing=0.1),
            X @ torch.ones(D, C, dtype=torch.float64),
            Y,
        ),
        (functools.partial(functional.mse_loss, reduction="none"), X[:, 0], X[:, 1]),
        (
            torch.nn.BCEWithLogitsLoss(reduction="none"),
            X,
            (X > 0).double(),
        ),  # several labels: averaged within the image
        (
            functional.cross_entropy,
            X.reshape(N, 2, 2),
            (X[:, :2] > 0).long(),
        ),  # one class for each pixel
        (torch.nn.SmoothL1Loss(reduction="none"), X.float(), (X * 2).float()),
    ],
    ids=["module", "partial", "regression", "several labels", "pixels", "float32"],
)
def test_any_loss_for_single_images_can_be_weighted(loss, prediction, truth) -> None:
    """Equal weights give torch's own mean."""
    averaged = (
        type(loss)(reduction="mean")
        if isinstance(loss, torch.nn.Module)
        else functools.partial(loss, reduction="mean")
    )
    equal = WeightedLoss(loss, np.ones(N))(prediction, truth, ROWS)
    torch.testing.assert_close(equal, averaged(prediction, truth))
    assert equal.dtype == prediction.dtype


def test_batches_say_their_images_by_id_or_by_row() -> None:
    ids = [f"{i}.jpg" for i in range(N)]
    by_row = WeightedLoss(functional.cross_entropy, WEIGHT)
    order = np.random.default_rng(1).permutation(N)
    shuffled = {ids[i]: WEIGHT[i] for i in order}
    by_id = WeightedLoss(functional.cross_entropy, shuffled)
    joined = WeightedLoss(
        functional.cross_entropy,
        SimpleNamespace(id=list(shuffled), weight=list(shuffled.values())),
        ids,
    )
    prediction = X @ torch.ones(D, C, dtype=torch.float64)
    rows = torch.tensor([3, 7, 2])
    expected = by_row(prediction[rows], Y[rows], rows)
    for found in (
        by_id(prediction[rows], Y[rows], [ids[row] for row in rows]),
        by_id(prediction[rows], Y[rows], tuple(ids[row] for row in rows)),
        joined(prediction[rows], Y[rows], rows),
        joined(prediction[rows], Y[rows], rows.tolist()),
        joined(prediction[rows], Y[rows], rows.int()),
        WeightedLoss(functional.cross_entropy, dict(enumerate(WEIGHT)))(
            prediction[rows], Y[rows], rows
        ),
    ):
        torch.testing.assert_close(found, expected)


def test_a_dataset_that_is_a_part_has_mean_one_over_the_part() -> None:
    criterion = WeightedLoss(
        functional.mse_loss, {"a": 1.0, "b": 3.0, "c": 80.0}, ["b", "a"], allow_extra=True
    )
    assert criterion.sample_weight.tolist() == [1.5, 0.5]


def test_weights_stay_out_of_checkpoints_and_in_double_precision(criterion: WeightedLoss) -> None:
    assert criterion.state_dict() == {}
    assert list(criterion.parameters()) == []
    exact = criterion.sample_weight.clone()
    assert torch.equal(criterion.half().sample_weight, exact)


def test_losses_of_half_precision_are_weighted_in_single() -> None:
    """60,000 × 1.9 is beyond half precision."""
    criterion = WeightedLoss(lambda prediction, truth: prediction, [1.0, 19.0])
    value = criterion(torch.tensor([0.0, 60_000.0], dtype=torch.float16), None, [0, 1])
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(1.9 * 60_000 / 2, rel=1e-3)


@pytest.mark.parametrize(
    "loss",
    [
        torch.nn.CrossEntropyLoss(weight=torch.ones(C), reduction="none"),
        torch.nn.NLLLoss(weight=torch.ones(C), reduction="none"),
        torch.nn.BCEWithLogitsLoss(pos_weight=torch.ones(C), reduction="none"),
        functools.partial(functional.cross_entropy, weight=torch.ones(C)),
        torch.nn.Sequential(torch.nn.CrossEntropyLoss(weight=torch.ones(C), reduction="none")),
    ],
)
def test_class_weights_on_top_are_refused_unless_asked_for(loss) -> None:
    with pytest.raises(
        ConfigError, match=r"class weights \((pos_)?weight\).*allow_class_weights=True"
    ):
        WeightedLoss(loss, WEIGHT)
    WeightedLoss(loss, WEIGHT, allow_class_weights=True)


def test_a_layer_within_a_loss_is_no_class_weight() -> None:
    class Perceptual(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(D, 2)

        def forward(self, prediction, truth):
            return (self.layer(prediction) - self.layer(truth)).square().sum(1)

    WeightedLoss(Perceptual(), WEIGHT)(X.float(), X.float(), ROWS)


@pytest.mark.parametrize(
    "loss",
    [torch.nn.CrossEntropyLoss(), functools.partial(functional.cross_entropy, reduction="sum")],
)
def test_a_loss_that_averages_or_sums_is_refused(loss) -> None:
    with refused(ConfigError, option="reduction", allowed=["none"]):
        WeightedLoss(loss, WEIGHT)


def test_batches_that_do_not_fit_are_refused(criterion: WeightedLoss) -> None:
    prediction = torch.zeros(2, C)
    with refused(DataError, count=2, limit=3):
        criterion(prediction, Y[:2], [1, 2, 3])
    with refused(DataError, option="image", value="torch.float32"):
        criterion(prediction, Y[:2], torch.tensor([0.5, 1.0]))
    with refused(DataError, option="image", value="list"):
        criterion(prediction, Y[:2], ["a", "b"])
    for rows in ([-1, 0], [0, N]):
        with refused(DataError, option="image", value=rows, limit=N):
            criterion(prediction, Y[:2], rows)
    with refused(DataError, ids=["c"]):
        WeightedLoss(functional.cross_entropy, {"a": 1.0, "b": 2.0})(prediction, Y[:2], ["a", "c"])
    with refused(ConfigError, option="loss", limit=2):
        WeightedLoss(lambda prediction, truth: prediction.mean(), WEIGHT)(prediction, Y[:2], [1, 2])


@pytest.mark.parametrize(
    ("weights", "words"),
    [([1.0, np.nan], "nan"), ([0.0, 0.0], "all 2 weights are zero"), ({"a": -1.0}, "'a', is -1.0")],
)
def test_unusable_weights_are_refused(weights, words: str) -> None:
    with pytest.raises(DataError, match=words):
        WeightedLoss(functional.cross_entropy, weights)


def test_even_smoothing_is_that_of_torch() -> None:
    logits = X @ torch.from_numpy(RNG.normal(size=(D, C)))
    even = torch.full((C,), 1 / C, dtype=torch.float64)
    for reduction in ("mean", "none"):
        ours = smoothed_cross_entropy(logits, Y, smoothing=0.1, towards=even, reduction=reduction)
        theirs = functional.cross_entropy(logits, Y, label_smoothing=0.1, reduction=reduction)
        torch.testing.assert_close(ours, theirs)


def test_smoothing_along_the_shift_leaves_every_label_the_likeliest() -> None:
    """The minimum is known: shifted logits log((1 − ε) 1{m = y} + ε u_m).

    Without the shift log(1/100), even smoothing would predict the rare class for every image.
    """
    shift, eye = torch.tensor([0.0, 0.0, -np.log(100)]), torch.eye(3, dtype=torch.float64)
    for towards, predicted in (
        (torch.softmax(shift, 0), [0, 1, 2]),
        (torch.full((3,), 1 / 3, dtype=torch.float64), [2, 2, 2]),
    ):
        best = torch.log(0.9 * eye + 0.1 * towards).requires_grad_()
        loss = smoothed_cross_entropy(best, torch.arange(3), smoothing=0.1, towards=towards)
        (gradient,) = torch.autograd.grad(loss, best)
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-12, rtol=0)
        assert (best - shift).argmax(1).tolist() == predicted


# Images with any number of labels


LABELS = RNG.integers(0, 2, (N, C)).astype(np.float32)
LABELS[RNG.random((N, C)) < 0.25] = np.nan


def _label_loss(labels, tau: float, **settings):
    dialled = turn_dial(WEIGHT, labels, labels.shape[1], tau)
    options = {"label_smoothing": 0.0} | settings
    return make_batch_loss(dialled, None, settings_of("fast", **options), "cpu"), dialled


def _known_loss(logits, labels, weight) -> float:
    """Mean of the losses of the labels that are known, weighted; by loops."""
    total = whole = 0.0
    for i, m in itertools.product(*map(range, labels.shape)):
        if not np.isnan(labels[i, m]) and weight[i]:
            p = 1 / (1 + np.exp(-logits[i, m]))
            total -= weight[i] * np.log(p if labels[i, m] else 1 - p)
            whole += weight[i]
    return total / whole


def test_the_loss_of_labels_is_that_of_the_known_ones() -> None:
    logits = X.numpy() @ np.linspace(-1, 1, D * C).reshape(D, C)
    loss, _ = _label_loss(LABELS, 0.0, weighting="loss")
    value = loss(torch.from_numpy(logits), torch.from_numpy(LABELS), np.arange(N)).item()
    assert value == pytest.approx(_known_loss(logits, LABELS, WEIGHT), rel=1e-6)


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
def test_drawing_by_weight_and_weighting_the_loss_of_labels_expect_the_same(tau: float) -> None:
    logits, labels = X @ torch.ones(D, C, dtype=torch.float64), torch.from_numpy(LABELS)
    by_loss, _ = _label_loss(LABELS, tau, weighting="loss")
    by_draw, dialled = _label_loss(LABELS, tau, weighting="sampler")
    share = dialled.image_weight / dialled.image_weight.sum()
    each = [by_draw(logits[[i]], labels[[i]], np.array([i])).item() for i in range(N)]
    assert share @ each == pytest.approx(by_loss(logits, labels, np.arange(N)).item(), rel=1e-6)


def test_one_label_is_the_loss_of_two_classes() -> None:
    known = np.nan_to_num(LABELS[:, :1])
    loss, dialled = _label_loss(known, 0.5, weighting="loss", label_smoothing=0.1)
    two = turn_dial(WEIGHT, known[:, 0].astype(int), 2, 0.5)
    assert dialled.image_weight == pytest.approx(two.weight)
    z = X[:, :1]
    pair = torch.cat([torch.zeros_like(z), z], dim=1) + torch.from_numpy(two.logit_shift)
    towards = torch.softmax(torch.from_numpy(two.logit_shift), 0)
    plain = functools.partial(smoothed_cross_entropy, smoothing=0.1, towards=towards)
    expected = WeightedLoss(plain, two.weight)(pair, torch.from_numpy(known[:, 0]).long(), ROWS)
    value = loss(z, torch.from_numpy(known), np.arange(N))
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)
