"""The loops over pixels, compiled when they are first called (numba), run without the GIL.

They sum whole numbers, exactly, or in the order of the pixels of one image: the other images of a
batch cannot change a sum.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from unskew.engine.compilation import compile_loop
from unskew.records.arrays import Floats
from unskew.represent.base import Pixels


def hsv_means(images: Pixels, border: int | None = None) -> Floats:
    """Average H, S, V (each in [0, 1]) over the pixels of images (n, h, w, 3): (n, 3).

    ``border``: only over pixels at most so far from an edge. With v = max and d = max − min of R,
    G, B: V = v/255, S = d/v, H = k/(6d) where k is (g − b) mod 6d, 2d + (b − r) or 4d + (r − g) as
    red, green or blue is the largest; S = 0 where v = 0, and H = 0 where d = 0.
    """
    height, width = images.shape[1:3]
    border = max(height, width) if border is None else min(border, max(height, width))
    mean = np.empty((len(images), 3))
    _compiled(_hsv_means)(np.ascontiguousarray(images), border, _RECIPROCAL, mean)
    return mean


def combination_sums(images: Pixels, weight_c: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Sum y and y² over the pixels of each image, y = w_R R + w_G G + w_B B.

    The weights are whole numbers, at most 1000 in all.
    """
    total = np.empty((len(images), 2), dtype=np.int64)
    flat = np.ascontiguousarray(images).reshape(len(images), -1, 3)
    _compiled(_combination_sums)(flat, *weight_c, total)
    return [(int(first), int(second)) for first, second in total]


def laplacian_sums(images: Pixels) -> list[tuple[int, int]]:
    """Sum L and L² over the pixels of each image that have four neighbours.

    L = up + down + left + right − 4 × itself, of the grey values. Grey is 0.299 R + 0.587 G + 0.114
    B in Pillow's fixed point, (19595 R + 38470 G + 7471 B + 32768) >> 16.
    """
    total = np.empty((len(images), 2), dtype=np.int64)
    _compiled(_laplacian_sums)(
        np.ascontiguousarray(images), np.empty((3, images.shape[2]), dtype=np.int32), total
    )
    return [(int(first), int(second)) for first, second in total]


# 1/x for x = 0 … 6 · 255, with 0 for 0.
_RECIPROCAL = np.concatenate([[0.0], 1.0 / np.arange(1, 6 * 255 + 1)])


_compiled = cache(compile_loop)


def _hsv_means(images: Any, border: Any, reciprocal: Any, mean: Any) -> None:
    n, height, width, _ = images.shape
    for i in range(n):
        hue, saturation, value, count = 0.0, 0.0, np.int64(0), np.int64(0)
        for y in range(height):
            pixel = images[i, y]
            is_inner = border <= y < height - border and 2 * border < width
            for x in range(2 * border if is_inner else width):
                # Of an inner line the first pixels and the last.
                at = x if not is_inner or x < border else x + width - 2 * border
                r, g, b = np.int32(pixel[at, 0]), np.int32(pixel[at, 1]), np.int32(pixel[at, 2])
                v = max(r, g, b)
                d = v - min(r, g, b)
                k = g - b if g >= b else g - b + 6 * d
                k = 2 * d + b - r if g == v else k
                k = 4 * d + r - g if b == v else k
                hue += k * reciprocal[6 * d]
                saturation += d * reciprocal[v]
                value += v
                count += 1
        mean[i, 0], mean[i, 1], mean[i, 2] = hue / count, saturation / count, value / 255.0 / count


def _combination_sums(flat: Any, w_r: Any, w_g: Any, w_b: Any, total: Any) -> None:
    for i in range(flat.shape[0]):
        first, second = np.int64(0), np.int64(0)
        for p in range(flat.shape[1]):
            y = (
                w_r * np.int64(flat[i, p, 0])
                + w_g * np.int64(flat[i, p, 1])
                + w_b * np.int64(flat[i, p, 2])
            )
            first += y
            second += y * y
        total[i, 0], total[i, 1] = first, second


def _laplacian_sums(images: Any, line: Any, total: Any) -> None:
    n, height, width, _ = images.shape
    for i in range(n):
        first, second = np.int64(0), np.int64(0)
        for y in range(height):
            # Three lines of grey values, used in turn.
            up, here, down = line[(y + 1) % 3], line[(y + 2) % 3], line[y % 3]
            pixel = images[i, y]
            for x in range(width):
                r, g, b = np.int32(pixel[x, 0]), np.int32(pixel[x, 1]), np.int32(pixel[x, 2])
                down[x] = (
                    np.int32(19595) * r + np.int32(38470) * g + np.int32(7471) * b + np.int32(32768)
                ) >> np.int32(16)
            if y >= 2:
                for x in range(1, width - 1):
                    value = up[x] + down[x] + here[x - 1] + here[x + 1] - np.int32(4) * here[x]
                    first += value
                    second += np.int64(value * value)
        total[i, 0], total[i, 1] = first, second
