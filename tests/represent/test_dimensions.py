"""Width, height and their ratio: from pixels and from headers alike."""

import numpy as np

from represent.picture_pools import encoded, pool_of, random_pixels, smooth_pixels
from unskew.represent.base import Header
from unskew.represent.dimensions import AspectRatio, Size, aspect_ratio, image_size
from unskew.represent.pool_features import represent_images


def test_size_and_aspect_ratio_are_width_first() -> None:
    images = np.zeros((2, 30, 40, 3), np.uint8)
    assert image_size(images).tolist() == [[40.0, 30.0]] * 2
    assert aspect_ratio(images).tolist() == [4 / 3] * 2


def test_the_size_of_an_image_does_not_depend_on_its_batch() -> None:
    images = np.stack([smooth_pixels(40, 50, seed) for seed in range(5)])
    for function in (image_size, aspect_ratio):
        np.testing.assert_array_equal(
            function(images), np.concatenate([function(image[None]) for image in images])
        )


def test_headers_say_what_pixels_say() -> None:
    shapes = [(30, 40), (7, 5), (1, 9)]
    headers = [Header(width, height) for height, width in shapes]
    pixels = [np.zeros((1, height, width, 3), np.uint8) for height, width in shapes]
    np.testing.assert_array_equal(
        Size().compute(headers), np.concatenate([image_size(image) for image in pixels])
    )
    np.testing.assert_array_equal(
        AspectRatio().compute(headers)[:, 0],
        np.concatenate([aspect_ratio(image) for image in pixels]),
    )


def test_columns_hold_the_upright_size_of_files_and_arrays() -> None:
    from PIL import Image

    # Lying on its side in the file: orientation 6 is turned by a quarter.
    turned = Image.Exif()
    turned[0x0112] = 6
    lying = encoded(Image.fromarray(random_pixels(20, 30)), "JPEG", exif=turned)
    frame = represent_images(
        pool_of([random_pixels(20, 30), encoded(random_pixels(20, 30)), lying]),
        ["size", "aspect_ratio"],
    ).frame
    assert frame["size_width"].tolist() == [30.0, 30.0, 20.0]
    assert frame["size_height"].tolist() == [20.0, 20.0, 30.0]
    np.testing.assert_allclose(frame["aspect_ratio"], [1.5, 1.5, 2 / 3])
