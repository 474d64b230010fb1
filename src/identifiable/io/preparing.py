"""Pictures as a model wants them, as its directory says: resized, cropped, scaled, normalised, with Pillow.

What the configuration asks for and is not known here is refused, never left out: it would move every number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError

BYTE = 255
RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}  # as Pillow numbers them
KNOWN = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb")
FLOATS = "pass arrays of real numbers (n, channels, height, width), prepared as the model wants them"


@dataclass(frozen=True)
class Preparation:
    """From a picture to an array (channels, height, width).

    `shorter`: the shorter side is resized to it, the other in proportion; `size`: both sides, whatever the proportion. `crop` is
    cut from the middle. Values times `scale`, minus `mean`, over `deviation`.
    """

    channels: int
    size: tuple[int, int] | None
    shorter: int | None
    resample: int
    crop: tuple[int, int] | None
    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, picture: Any) -> NDArray[np.float32]:
        image = picture.convert("RGB" if self.channels == 3 else "L")
        wide, high = image.size
        if self.size is not None:
            image = image.resize(self.size[::-1], self.resample)
        elif self.shorter is not None:
            short, long = min(wide, high), max(wide, high)
            other = int(self.shorter * long / short)
            image = image.resize((self.shorter, other) if wide <= high else (other, self.shorter), self.resample)
        values = np.asarray(image, np.uint8)
        values = values if values.ndim == 3 else values[:, :, None]
        if self.crop is not None:
            values = _cropped(values, self.crop)
        mean, deviation = (np.array(each, np.float32) for each in (self.mean, self.deviation))
        numbers: NDArray[np.float32] = np.float32(self.scale) * values.astype(np.float32)
        return np.ascontiguousarray(np.moveaxis((numbers - mean) / deviation, -1, 0), np.float32)

    def described(self) -> Mapping[str, Any]:
        return asdict(self)


def preparation(config: Mapping[str, Any], family: str, name: str) -> Preparation:
    """As a `preprocessor_config.json` of transformers or a `pretrained_cfg` of timm says."""
    try:
        return _of_timm(config) if family == "timm" else _of_transformers(config)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, DataError):
            raise DataError(f"{name}: {error}") from None
        raise DataError(
            f"{name}: its description of how to prepare pictures cannot be read ({error!r}); {FLOATS}."
        ) from None


def _of_transformers(config: Mapping[str, Any]) -> Preparation:
    other = [key for key, value in config.items() if key.startswith("do_") and value and key not in KNOWN]
    other += [key for key in ("crop_pct", "size_divisor") if config.get(key) is not None]
    if other:
        raise DataError(f"preparing pictures by {', '.join(other)} is not known here; {FLOATS}.")
    size, shorter, crop = None, None, None
    if config.get("do_resize", True):
        asked = config["size"]
        cropped = config.get("do_center_crop", False)
        if isinstance(asked, int):
            size, shorter = (None, asked) if cropped else ((asked, asked), None)
        elif set(asked) == {"shortest_edge"}:
            shorter = int(asked["shortest_edge"])
        elif set(asked) == {"height", "width"}:
            size = (int(asked["height"]), int(asked["width"]))
        else:
            raise DataError(f"a size by {', '.join(asked)} is not known here; {FLOATS}.")
    if config.get("do_center_crop", False):
        asked = config.get("crop_size", config.get("size"))
        crop = (asked, asked) if isinstance(asked, int) else (int(asked["height"]), int(asked["width"]))
    mean, deviation = (tuple(map(float, config.get(key, (0.5,) * 3))) for key in ("image_mean", "image_std"))
    if not config.get("do_normalize", True):
        mean, deviation = (0.0,) * len(mean), (1.0,) * len(mean)
    scale = float(config.get("rescale_factor", 1 / BYTE)) if config.get("do_rescale", True) else 1.0
    return Preparation(len(mean), size, shorter, int(config.get("resample", 2)), crop, scale, mean, deviation)


def _of_timm(config: Mapping[str, Any]) -> Preparation:
    channels, high, wide = (int(length) for length in config["input_size"])
    mean, deviation = (_of_channels(config[key], channels) for key in ("mean", "std"))
    mode = config.get("crop_mode") or "center"
    resample = RESAMPLE[str(config.get("interpolation", "bicubic"))]
    share = float(config.get("crop_pct") or 1.0)
    if mode == "squash":
        size = (math.floor(high / share), math.floor(wide / share))
        return Preparation(channels, size, None, resample, (high, wide), 1 / BYTE, mean, deviation)
    if mode != "center" or high != wide:
        raise DataError(f"preparing pictures by crop_mode {mode} to {high} x {wide} is not known here; {FLOATS}.")
    return Preparation(channels, None, math.floor(high / share), resample, (high, wide), 1 / BYTE, mean, deviation)


def _of_channels(values: Sequence[float], channels: int) -> tuple[float, ...]:
    return tuple(float(v) for v in values)[:channels]


def _cropped(values: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    high, wide = size
    if values.shape[0] < high or values.shape[1] < wide:
        raise DataError(
            f"a picture of {values.shape[0]} x {values.shape[1]} cannot be cropped to {high} x {wide}; make it larger."
        )
    top, left = (values.shape[0] - high) // 2, (values.shape[1] - wide) // 2
    return values[top : top + high, left : left + wide]
