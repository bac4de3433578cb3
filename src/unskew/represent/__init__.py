"""An image -> a few numbers.

- ``base``: the contract of a representation: an image as a few numbers.
- ``color``: colour and light: `border_hsv`, `mean_hsv`, `brightness`, `contrast`,
  `colourfulness`.
- ``decode``: the bytes of a file, or an array -> pixels: upright, RGB, 8 bits, in full or
  reduced.
- ``dimensions``: the size of an image in pixels and its aspect ratio: from the header, nothing is
  decoded.
- ``efficientnet``: efficientNet-lite0 of the extra `embed`, trained on ImageNet; a package holds
  its weights.
- ``embedding``: `embedding`: features of a neural network, reduced to a few principal components
  of all images.
- ``embedding_models``: the models that an embedding may name: a factory, a TorchScript or ONNX
  file, or the default.
- ``exif``: what the camera wrote into the file: make, model, ISO, exposure, focal length, date.
- ``feature_cache``: hashes of images, and the cache of computed features: Parquet files by
  content and settings.
- ``image_tasks``: the task of one thread or process: read images, hash, decode, and compute what
  is not known.
- ``kernels_pixels``: the loops over pixels, compiled when they are first called (numba), run
  without the GIL.
- ``networks``: running a neural network, by torch or onnxruntime: one row of numbers for each
  image.
- ``pool_features``: `represent_images`: the pool with columns of numbers computed from its
  images.
- ``projection``: principal components of many numbers per image, fitted block by block to bound
  the memory.
- ``square_pixels``: images as small squares of pixels, all of one size: what a network is trained
  on.
- ``texture``: fine structure: `sharpness` (variance of the Laplacian) and `noise` (film grain).
- ``user_functions``: names, settings and functions as representations; a function of the user:
  `module:function`.
- ``workers``: the threads and processes of a run; results gathered and written.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.represent.base import Representation
    from unskew.represent.color import border_hsv, brightness, colourfulness, contrast, mean_hsv
    from unskew.represent.decode import decode_image
    from unskew.represent.square_pixels import square_images
    from unskew.represent.texture import noise, sharpness

__all__ = [
    "Representation",
    "border_hsv",
    "brightness",
    "colourfulness",
    "contrast",
    "decode_image",
    "mean_hsv",
    "noise",
    "sharpness",
    "square_images",
]

_HOME = {
    "Representation": "base",
    **dict.fromkeys(("border_hsv", "brightness", "colourfulness", "contrast", "mean_hsv"), "color"),
    "decode_image": "decode",
    "square_images": "square_pixels",
    **dict.fromkeys(("noise", "sharpness"), "texture"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'unskew.represent' has no attribute {name!r}")
    return getattr(import_module(f"unskew.represent.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
