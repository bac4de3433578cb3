"""Random crops, flips and Cutout of a whole batch at once, on its device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import torch

Padding = Literal["reflect", "zeros"]


class Changes(NamedTuple):
    """What is done to each of b images.

    Shift ``down`` and ``right`` in pixels, ``flip`` or not, the centre of the square to cut out.
    """

    down: torch.Tensor
    right: torch.Tensor
    flip: torch.Tensor
    row: torch.Tensor
    column: torch.Tensor

    def take(self, part: slice) -> Changes:
        """Return those of some of the images: one process' share of a batch."""
        return Changes(*(values[part] for values in self))


def draw_changes(
    b: int, shape: tuple[int, ...], generator: torch.Generator, *, pad: int
) -> Changes:
    """Draw shifts uniform on −pad … pad, flips with probability 1/2, centres uniform over images.

    Images have the shape ``shape``; all randomness comes from ``generator``.
    """
    import torch

    def whole(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, (b,), generator=generator, device=generator.device)

    return Changes(
        whole(-pad, pad + 1),
        whole(-pad, pad + 1),
        whole(0, 2).bool(),
        whole(0, shape[0]),
        whole(0, shape[1]),
    )


def augment_images(
    images: torch.Tensor,
    changes: Changes,
    *,
    padding: Padding = "reflect",
    cutout: int = 0,
    fill: torch.Tensor | None = None,
) -> torch.Tensor:
    """Shift, mirror and partly blot out (b, h, w, 3) uint8 images; the shape stays the same.

    Parameters
    ----------
    changes : what is done to each image, on the device of the images.
    padding : what comes in at the border: "reflect", the image mirrored there; "zeros", the colour
        ``fill``.
    cutout : side of a square of the colour ``fill`` whose centre is uniform over the image, so that
        it may reach over the border (DeVries & Taylor 2017); 0: none.
    fill : (3,) uint8, the mean colour, which is zero for the network. Default: black.
    """
    shown = crop_and_flip(
        images, changes.down, changes.right, changes.flip, padding=padding, fill=fill
    )
    return cut_out(shown, changes.row, changes.column, cutout, fill=fill) if cutout else shown


def crop_and_flip(
    images: torch.Tensor,
    down: torch.Tensor,
    right: torch.Tensor,
    flip: torch.Tensor,
    *,
    padding: Padding = "reflect",
    fill: torch.Tensor | None = None,
) -> torch.Tensor:
    """Shift and mirror images.

    Pixel (y, x) of image i is pixel (y + down_i, x' + right_i) of the padded one, x' = x, or
    w − 1 − x where ``flip``.

    One gather by index, without a padded copy: a position beyond the border is reflected at it (−1
    → 1), or filled.
    """
    import torch

    b, h, w, _ = images.shape
    device = images.device
    across = torch.arange(w, device=device).expand(b, w)
    row = torch.arange(h, device=device) + down[:, None]
    column = torch.where(flip[:, None], w - 1 - across, across) + right[:, None]
    image = torch.arange(b, device=device)[:, None, None]
    shown = images[image, _reflected(row, h)[:, :, None], _reflected(column, w)[:, None, :]]
    if padding == "zeros":
        outside = ((row < 0) | (row >= h))[:, :, None] | ((column < 0) | (column >= w))[:, None, :]
        shown[outside] = _colour(images, fill)
    return shown


def cut_out(
    images: torch.Tensor,
    row: torch.Tensor,
    column: torch.Tensor,
    side: int,
    *,
    fill: torch.Tensor | None = None,
) -> torch.Tensor:
    """Paint a square of ``side`` pixels in the colour ``fill``, in place.

    It begins at (row_i − ⌊side/2⌋, column_i − ⌊side/2⌋).
    """
    import torch

    _, h, w, _ = images.shape
    below = torch.arange(h, device=images.device) - (row[:, None] - side // 2)
    across = torch.arange(w, device=images.device) - (column[:, None] - side // 2)
    in_rows, in_columns = (below >= 0) & (below < side), (across >= 0) & (across < side)
    inside = in_rows[:, :, None] & in_columns[:, None, :]
    images[inside] = _colour(images, fill)
    return images


def _reflected(position: torch.Tensor, length: int) -> torch.Tensor:
    """Map −1 → 1, length → length − 2, with more reflections for shifts beyond the image."""
    if length == 1:
        return position.new_zeros(position.shape)
    period = 2 * (length - 1)
    position = position.remainder(period)
    return position.minimum(period - position)


def _colour(images: torch.Tensor, fill: torch.Tensor | None) -> torch.Tensor:
    return images.new_zeros(3) if fill is None else fill.to(images)
