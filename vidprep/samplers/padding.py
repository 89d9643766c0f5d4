"""What stands in the places of a clip that lie outside its range.

The range is [low, high): the video, or the segment that the clip must stay in. Modes, for a range of n frames a..e
(5 of them) and a clip that runs out on both sides:

    mode           front  range  end
    none           (cut)  abcde  (cut)         an entry of a list is an error instead
    constant       . . .  abcde  . . .         index -1, pixels = fill_value
    edge           a a a  abcde  e e e         alias repeat
    reflect_101    d c b  abcde  d c b         alias reflect
    reflect_1001   c b a  abcde  e d c         alias symmetric
    wrap           c d e  abcde  a b c         alias loop
    shift          the whole clip moves until it fits; a clip longer than the range starts at `low` and repeats `e`
    drop           the clip is not offered: `num_clips` leaves it out, `choose` raises
    error          SamplingError

constant, edge and both reflections give DALI 2.4's indices (`fn.decoders.video`, observed); DALI reflects about the
ends of the video, we about the ends of the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import SamplingError

if TYPE_CHECKING:
    from vidprep.samplers.spec import BoolArray
    from vidprep.timebase import IntArray

__all__ = ["ALIASES", "PAD_MODES", "canonical_pad", "resolve"]

PAD_MODES = (
    "none", "constant", "edge", "reflect_101", "reflect_1001", "wrap", "shift", "drop", "error",
)  # fmt: skip
#: Other people's names for the same thing.
ALIASES = {"repeat": "edge", "reflect": "reflect_101", "symmetric": "reflect_1001", "loop": "wrap"}


def canonical_pad(pad: str) -> str:
    """The mode's own name.

    Raises:
        SamplingError: no such mode.
    """
    mode = ALIASES.get(pad, pad)
    if mode not in PAD_MODES:
        raise SamplingError(f"pad={pad!r}: expected one of {', '.join(PAD_MODES)} (or {', '.join(sorted(ALIASES))})")
    return mode


def resolve(
    places: IntArray, low: int | IntArray, high: int | IntArray, pad: str, *, is_list: bool = False
) -> tuple[IntArray, BoolArray]:
    """Fill the places that lie outside [low, high).

    Args:
        places: int64[..., F], wanted frame indices, any order; may lie outside.
        low: first frame of the range, or one for each clip, broadcast against `places`.
        high: one past the last frame of the range; above `low`.
        pad: canonical mode.
        is_list: the places were named one by one, so that with "none" one outside is an error.

    Returns:
        frame_index int64[..., F], and is_padding bool[..., F]. With "none" the first is shorter (one clip only).

    Raises:
        SamplingError: "error", "drop", or "none" for a list, and a place lies outside.
    """
    outside = (places < low) | (places >= high)
    if not np.count_nonzero(outside):
        return places, outside
    if pad in _FILL:
        return _FILL[pad](places, low, high), outside
    if pad == "none" and not is_list:
        return places[~outside], np.zeros(int((~outside).sum()), dtype=np.bool_)
    if pad == "shift":
        return _shift(places, low, high)
    raise SamplingError(_refusal(places[outside], low, high, pad))


def _refusal(outside: IntArray, low: int | IntArray, high: int | IntArray, pad: str) -> str:
    frames = ", ".join(map(str, outside.flat[:3])) + (", ..." if outside.size > 3 else "")
    return f"frames {frames} lie outside [{low}, {high}) and pad={pad!r} fills no places"


def _constant(places: IntArray, low: int | IntArray, high: int | IntArray) -> IntArray:
    return np.where((places < low) | (places >= high), -1, places)


def _edge(places: IntArray, low: int | IntArray, high: int | IntArray) -> IntArray:
    return np.minimum(np.maximum(places, low), high - 1)


def _reflect_101(places: IntArray, low: int | IntArray, high: int | IntArray) -> IntArray:
    """Period 2(n-1): the end frames are not repeated; a range of one frame repeats it."""
    last = high - 1 - low
    within = (places - low) % np.maximum(2 * last, 1)
    return low + last - np.abs(last - within)


def _reflect_1001(places: IntArray, low: int | IntArray, high: int | IntArray) -> IntArray:
    """Period 2n: the end frames come twice."""
    n = high - low
    within = (places - low) % (2 * n)
    return low + np.minimum(within, 2 * n - 1 - within)


def _wrap(places: IntArray, low: int | IntArray, high: int | IntArray) -> IntArray:
    return low + (places - low) % (high - low)


def _shift(places: IntArray, low: int | IntArray, high: int | IntArray) -> tuple[IntArray, BoolArray]:
    back = np.maximum(places.max(axis=-1, keepdims=True) - (high - 1), 0)
    moved = places - back
    moved = moved + np.maximum(low - moved.min(axis=-1, keepdims=True), 0)
    outside = moved >= high
    return _edge(moved, low, high), outside


_FILL = {
    "constant": _constant,
    "edge": _edge,
    "reflect_101": _reflect_101,
    "reflect_1001": _reflect_1001,
    "wrap": _wrap,
}
