"""Pictures are prepared as a configuration says, and what it says that is not known is refused."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from errors import naming
from identifiable import DataError
from identifiable.io.preparing import preparation

HUGGING_FACE = {"size": {"height": 4, "width": 6}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
TIMM = {"input_size": [3, 4, 4], "mean": [0.5] * 3, "std": [0.25] * 3, "crop_pct": 0.5, "interpolation": "nearest"}


def picture(high=8, wide=10):
    return Image.fromarray(np.arange(high * wide * 3, dtype=np.uint8).reshape(high, wide, 3))


def test_timm_resizes_the_shorter_side_and_cuts_the_middle_out():
    values = preparation(TIMM, "timm", "m")(picture())  # 4 / 0.5 = 8: nothing is resized
    expected = (np.asarray(picture())[2:6, 3:7] / 255 - 0.5) / 0.25
    np.testing.assert_allclose(values, np.moveaxis(expected, -1, 0), atol=1e-6)
    squashed = preparation({**TIMM, "crop_mode": "squash"}, "timm", "m")(picture(16, 8))
    assert squashed.shape == (3, 4, 4)


def test_grey_pictures_stay_grey_for_a_model_of_one_channel():
    config = {**HUGGING_FACE, "image_mean": [0.0], "image_std": [1.0]}
    grey = picture().convert("L").resize((6, 4), 2)
    np.testing.assert_allclose(preparation(config, "huggingface", "m")(picture())[0], np.asarray(grey) / 255, atol=1e-6)


def test_old_sizes_are_a_side_or_the_shorter_side():
    square = preparation({**HUGGING_FACE, "size": 5}, "huggingface", "m")(picture())
    cut = preparation({**HUGGING_FACE, "size": 5, "do_center_crop": True, "crop_size": 4}, "huggingface", "m")(
        picture()
    )
    assert (square.shape, cut.shape) == ((3, 5, 5), (3, 4, 4))
    plain = preparation(
        {**HUGGING_FACE, "do_resize": False, "do_normalize": False, "do_rescale": False}, "huggingface", "m"
    )
    np.testing.assert_array_equal(plain(picture()), np.moveaxis(np.asarray(picture()), -1, 0))


@pytest.mark.parametrize(
    ("family", "change", "part"),
    [
        ("huggingface", {"do_pad": True}, "do_pad"),
        ("huggingface", {"crop_pct": 0.9}, "crop_pct"),
        ("huggingface", {"size": {"longest_edge": 3}}, "longest_edge"),
        ("huggingface", {"size": None}, "size"),
        ("timm", {"crop_mode": "border"}, "border"),
        ("timm", {"input_size": [3, 4, 5]}, "4 x 5"),
        ("timm", {"interpolation": "random"}, "random"),
    ],
)
def test_what_is_not_known_is_named(family, change, part):
    config = {**(TIMM if family == "timm" else HUGGING_FACE), **change}
    with pytest.raises(DataError, match=naming("model", part) if part != "size" else "model"):
        preparation(config, family, "model")


def test_a_picture_too_small_to_crop_is_refused():
    config = {**HUGGING_FACE, "do_resize": False, "do_center_crop": True, "crop_size": 9}
    with pytest.raises(DataError, match=naming(8, 10, 9)):
        preparation(config, "huggingface", "m")(picture())
