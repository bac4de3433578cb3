"""Random crops, flips, colours and Cutout of a whole batch at once, on its device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import torch

Padding = Literal["reflect", "zeros"]
Crop = Literal["shift", "resized", "none"]
# Of the aspect ratio of a resized crop, as in training of ImageNet's networks.
_WIDEST = 4 / 3
# Of red, green and blue in the brightness of a pixel (ITU-R 601).
_BRIGHTNESS = (0.299, 0.587, 0.114)


class Changes(NamedTuple):
    """What is done to each of b images.

    Shift ``down`` and ``right`` in pixels, ``flip`` or not, the centre of the square to cut out.
    ``window`` (b, 4): top, left, height and width of a resized crop, as shares of the image;
    ``colour`` (b, 3): factors of brightness, contrast and saturation. None: not drawn.
    """

    down: torch.Tensor
    right: torch.Tensor
    flip: torch.Tensor
    row: torch.Tensor
    column: torch.Tensor
    window: torch.Tensor | None = None
    colour: torch.Tensor | None = None

    def take(self, part: slice) -> Changes:
        """Return those of some of the images: one process' share of a batch."""
        taken: dict[str, Any] = {
            name: None if values is None else values[part]
            for name, values in self._asdict().items()
        }
        return self._replace(**taken)


def draw_changes(
    b: int,
    shape: tuple[int, ...],
    generator: torch.Generator,
    *,
    pad: int,
    flip: bool = True,
    smallest_crop: float | None = None,
    jitter: float = 0.0,
) -> Changes:
    """Draw shifts uniform on −pad … pad, flips with probability 1/2, centres uniform over images.

    Images have the shape ``shape``; all randomness comes from ``generator``. With ``smallest_crop``
    windows are drawn: their area uniform from it to 1, the logarithm of their aspect ratio uniform
    from log 3/4 to log 4/3, their position uniform. With ``jitter`` factors uniform on 1 − jitter …
    1 + jitter.
    """
    import torch

    def whole(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, (b,), generator=generator, device=generator.device)

    def uniform(columns: int) -> torch.Tensor:
        return torch.rand((b, columns), generator=generator, device=generator.device)

    changes = Changes(
        whole(-pad, pad + 1),
        whole(-pad, pad + 1),
        whole(0, 2).bool() & flip,
        whole(0, shape[0]),
        whole(0, shape[1]),
    )
    if smallest_crop is not None:
        changes = changes._replace(window=_windows(uniform(4), shape, smallest_crop))
    if jitter:
        changes = changes._replace(colour=1 + jitter * (2 * uniform(3) - 1))
    return changes


def _windows(uniform_b4: torch.Tensor, shape: tuple[int, ...], smallest: float) -> torch.Tensor:
    """Turn uniform numbers into windows inside the image."""
    import torch

    area, aspect, down, right = uniform_b4.unbind(1)
    area = smallest + (1 - smallest) * area
    # Width over height, in pixels.
    ratio = torch.exp((2 * aspect - 1) * math.log(_WIDEST)) * shape[0] / shape[1]
    height = (area / ratio).sqrt().clamp(max=1.0)
    width = (area * ratio).sqrt().clamp(max=1.0)
    return torch.stack([down * (1 - height), right * (1 - width), height, width], dim=1)


def augment_images(
    images: torch.Tensor,
    changes: Changes,
    *,
    padding: Padding = "reflect",
    cutout: int = 0,
    fill: torch.Tensor | None = None,
) -> torch.Tensor:
    """Shift or crop, mirror, recolour and partly blot out (b, h, w, 3) uint8 images.

    The shape stays the same; resized or recoloured images are float32, from 0 to 255.

    Parameters
    ----------
    changes : what is done to each image, on the device of the images.
    padding : what comes in at the border: "reflect", the image mirrored there; "zeros", the colour
        ``fill``.
    cutout : side of a square of the colour ``fill`` whose centre is uniform over the image, so that
        it may reach over the border (DeVries & Taylor 2017); 0: none.
    fill : (3,) uint8, the mean colour, which is zero for the network. Default: black.
    """
    if changes.window is not None:
        shown = resize_windows(images, changes.window, changes.flip)
    else:
        shown = crop_and_flip(
            images, changes.down, changes.right, changes.flip, padding=padding, fill=fill
        )
    if changes.colour is not None:
        shown = recolour(shown, changes.colour)
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


def resize_windows(
    images: torch.Tensor, window_b4: torch.Tensor, flip: torch.Tensor
) -> torch.Tensor:
    """Enlarge windows of images to the size of the images, bilinearly, and mirror some of them.

    Pixel centres (y, x) of the result come from (top + height · y, left + width · x), in shares of
    the image; mirrored: from 1 − x.
    """
    import torch
    from torch.nn import functional

    top, left, height, width = window_b4.to(torch.float32).unbind(1)
    zero = torch.zeros_like(top)
    sign = torch.where(flip, -1.0, 1.0).to(top)
    # From −1 to 1 over the result, to −1 to 1 over the image.
    affine_b23 = torch.stack(
        [
            torch.stack([sign * width, zero, 2 * left + width - 1], dim=1),
            torch.stack([zero, height, 2 * top + height - 1], dim=1),
        ],
        dim=1,
    )
    pixels = images.permute(0, 3, 1, 2).to(torch.float32)
    grid = functional.affine_grid(affine_b23, list(pixels.shape), align_corners=False)
    shown = functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
    return shown.permute(0, 2, 3, 1)


def recolour(images: torch.Tensor, colour_b3: torch.Tensor) -> torch.Tensor:
    """Multiply brightness, then contrast about the mean brightness, then saturation.

    Returns float32, clipped to 0 … 255 after each.
    """
    import torch

    weight = torch.tensor(_BRIGHTNESS, device=images.device)
    shown = images.to(torch.float32)
    brightness, contrast, saturation = colour_b3.to(shown)[:, :, None, None, None].unbind(1)
    shown = (brightness * shown).clamp(0, 255)
    level = (shown @ weight).mean(dim=(1, 2))[:, None, None, None]
    shown = (level + contrast * (shown - level)).clamp(0, 255)
    grey = (shown @ weight)[..., None]
    return (grey + saturation * (shown - grey)).clamp(0, 255)


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
