"""Frame identity of the cases: the number that is drawn into each picture (tests/cases/README.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: Mean luma differences below this mean that a block is damaged.
SURE_LEVELS = 90


def drawn_number(picture: np.ndarray) -> int:
    """The number in an RGB picture (H, W, 3), or -1 where it is damaged.

    Eight blocks across the upper half spell it, most significant bit first, white = 1; the lower half is the complement.
    """
    height, width = picture.shape[:2]
    luma = picture.astype(float) @ (0.299, 0.587, 0.114)
    number = 0
    for block in range(8):
        columns = slice(int((block + 0.25) * width / 8), int((block + 0.75) * width / 8))
        upper = luma[height // 8 : 3 * height // 8, columns].mean()
        lower = luma[5 * height // 8 : 7 * height // 8, columns].mean()
        if abs(upper - lower) < SURE_LEVELS:
            return -1
        number = number * 2 + int(upper > lower)
    return number


def draw_number(number: int, width: int = 160, height: int = 144) -> np.ndarray:
    """RGB picture (H, W, 3) in which `drawn_number` finds `number`."""
    import numpy as np

    picture = np.zeros((height, width, 3), np.uint8)
    for block in range(8):
        is_one = number >> 7 - block & 1
        columns = slice(block * width // 8, (block + 1) * width // 8)
        picture[: height // 2, columns] = 235 if is_one else 20
        picture[height // 2 :, columns] = 20 if is_one else 235
    return picture
