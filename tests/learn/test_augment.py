"""Crops, flips and Cutout against NumPy, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from unskew.learn.augment import (  # noqa: E402
    augment_images,
    crop_and_flip,
    cut_out,
    draw_changes,
    recolour,
    resize_windows,
)

FILL = np.array([7, 8, 9], dtype=np.uint8)


def _images(b: int, h: int, w: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (b, h, w, 3), dtype=np.uint8)


def _oracle(
    image: np.ndarray, down: int, right: int, flip: bool, pad: int, padding: str
) -> np.ndarray:
    """Pad, cut the window, mirror it: one image at a time."""
    h, w, _ = image.shape
    if padding == "reflect":
        padded = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    else:
        padded = np.stack(
            [np.pad(image[..., c], pad, constant_values=FILL[c]) for c in range(3)], axis=-1
        )
    window = padded[pad + down : pad + down + h, pad + right : pad + right + w]
    return window[:, ::-1] if flip else window


@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9)),
    pad=st.integers(0, 12),
    padding=st.sampled_from(["reflect", "zeros"]),
    seed=st.integers(0, 99),
)
def test_a_crop_is_the_window_of_the_padded_image(shape, pad: int, padding: str, seed: int) -> None:
    images = _images(*shape, seed)
    rng = np.random.default_rng(seed)
    down, right = rng.integers(-pad, pad + 1, (2, shape[0]))
    flip = rng.random(shape[0]) < 0.5
    given_tensors = [torch.from_numpy(values) for values in (images, down, right, flip)]
    found = crop_and_flip(*given_tensors, padding=padding, fill=torch.from_numpy(FILL)).numpy()
    for i in range(shape[0]):
        np.testing.assert_array_equal(
            found[i], _oracle(images[i], down[i], right[i], flip[i], pad, padding)
        )


def test_without_shift_a_flip_keeps_every_pixel() -> None:
    images = torch.from_numpy(_images(40, 6, 5))
    found = augment_images(
        images, draw_changes(40, (6, 5), torch.Generator().manual_seed(0), pad=0)
    )
    same = [bool(torch.equal(*pair)) for pair in zip(found, images, strict=True)]
    assert 8 < sum(same) < 32
    assert torch.equal(found.flatten(1).sort(1).values, images.flatten(1).sort(1).values)


@pytest.mark.parametrize(
    ("row", "column", "side", "area"),
    [(5, 5, 4, 16), (5, 5, 3, 9), (0, 0, 4, 4), (9, 0, 4, 6), (0, 5, 20, 100)],
)
def test_cutout_blots_out_a_square_as_far_as_it_lies_in_the_image(
    row: int, column: int, side: int, area: int
) -> None:
    images = torch.full((1, 10, 10, 3), 255, dtype=torch.uint8)
    found = cut_out(
        images, torch.tensor([row]), torch.tensor([column]), side, fill=torch.from_numpy(FILL)
    ).numpy()[0]
    blotted = (found == FILL).all(axis=2)
    assert blotted.sum() == area
    assert (found[~blotted] == 255).all()


def test_changes_come_from_the_generator_alone_and_reach_every_value() -> None:
    first, again = (
        draw_changes(4000, (5, 7), torch.Generator().manual_seed(3), pad=2) for _ in range(2)
    )
    assert all(torch.equal(*pair) for pair in zip(first[:5], again[:5], strict=True))
    assert [values.unique().tolist() for values in first[:5]] == [[-2, -1, 0, 1, 2]] * 2 + [
        [False, True],
        list(range(5)),
        list(range(7)),
    ]
    # A chi-square of 4 degrees of freedom exceeds 18.5 once in a thousand seeds; this seed does
    # not.
    counts = torch.bincount(first.down + 2).double()
    assert float(((counts - 800) ** 2 / 800).sum()) < 18.5


def test_a_share_of_the_changes_is_that_of_the_images() -> None:
    """Two processes that take turns do to their images what one process would."""
    images = torch.from_numpy(_images(8, 6, 6))
    changes = draw_changes(8, (6, 6), torch.Generator().manual_seed(0), pad=3)
    whole = augment_images(images, changes, cutout=2)
    for rank in range(2):
        mine = slice(rank, None, 2)
        assert torch.equal(augment_images(images[mine], changes.take(mine), cutout=2), whole[mine])


def test_the_images_themselves_stay_as_they_are() -> None:
    images = torch.from_numpy(_images(4, 6, 6))
    before = images.clone()
    augment_images(
        images, draw_changes(4, (6, 6), torch.Generator(), pad=1), cutout=3, padding="zeros"
    )
    assert torch.equal(images, before)


def test_the_whole_window_is_the_image_and_a_flip_mirrors_it() -> None:
    images = torch.from_numpy(_images(2, 6, 5))
    whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]] * 2)
    found = resize_windows(images, whole, torch.tensor([False, True]))
    # Positions are rounded to float32.
    assert torch.allclose(found[0], images[0].float(), atol=1e-3)
    assert torch.allclose(found[1], images[1].flip(1).float(), atol=1e-3)


def test_a_window_of_a_gradient_is_enlarged_linearly() -> None:
    """Pixel centres of the result, as shares: top + height · (y + ½)/h; values are linear there."""
    ramp = torch.arange(8.0)[None, :, None, None].expand(1, 8, 8, 3) * 20
    found = resize_windows(
        ramp.to(torch.uint8), torch.tensor([[0.25, 0.25, 0.5, 0.5]]), torch.tensor([False])
    )
    centres = (0.25 + 0.5 * (torch.arange(8) + 0.5) / 8) * 8 - 0.5
    assert torch.allclose(found[0, :, 3, 0], 20 * centres, atol=1e-3)


def test_windows_are_inside_with_the_area_and_the_aspect_ratio_asked_for() -> None:
    changes = draw_changes(
        4000, (12, 9), torch.Generator().manual_seed(0), pad=0, smallest_crop=0.3, jitter=0.2
    )
    top, left, height, width = changes.window.unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    # Shares are rounded to float32.
    assert (top + height <= 1 + 1e-6).all()
    assert (left + width <= 1 + 1e-6).all()
    free = (height < 1) & (width < 1)
    area, aspect = (height * width)[free], (width * 9 / (height * 12))[free]
    assert area.min() >= 0.3 - 1e-6
    assert (aspect.min(), aspect.max()) == (
        pytest.approx(3 / 4, abs=0.01),
        pytest.approx(4 / 3, abs=0.01),
    )
    assert changes.colour.min() >= 0.8
    assert changes.colour.max() <= 1.2
    assert changes.take(slice(1, None, 2)).window.shape == (2000, 4)


def test_factors_of_one_change_no_colour_and_others_do_what_they_say() -> None:
    images = torch.from_numpy(_images(3, 4, 4))
    same = recolour(images, torch.ones(3, 3))
    assert torch.allclose(same, images.float(), atol=1e-3)
    grey = recolour(images[:1], torch.tensor([[1.0, 1.0, 0.0]]))
    assert torch.allclose(grey[..., 0], grey[..., 2], atol=1e-3)
    flat = recolour(images[:1], torch.tensor([[1.0, 0.0, 0.0]]))
    assert float(flat.std()) < 1e-3
    dark = recolour(images[:1], torch.tensor([[0.5, 1.0, 1.0]]))
    assert torch.allclose(dark, images[:1] / 2, atol=1e-3)


def test_no_flip_mirrors_nothing() -> None:
    changes = draw_changes(50, (6, 5), torch.Generator().manual_seed(0), pad=0, flip=False)
    assert not changes.flip.any()
