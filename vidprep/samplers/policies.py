"""All policies, wherever they live."""

from vidprep.samplers.keyframes import Keyframes
from vidprep.samplers.lists import Delta, FrameList
from vidprep.samplers.policy import Policy
from vidprep.samplers.ranges import Dense, First, Last, RandomClip, Strided, Windows
from vidprep.samplers.rates import AtRate
from vidprep.samplers.spread import Segments, Uniform

__all__ = [
    "POLICIES",
    "AtRate",
    "Delta",
    "Dense",
    "First",
    "FrameList",
    "Keyframes",
    "Last",
    "Policy",
    "RandomClip",
    "Segments",
    "Strided",
    "Uniform",
    "Windows",
]

#: Every policy under its name in the text form.
POLICIES: dict[str, type[Policy]] = {
    kind.name: kind
    for kind in (
        First, Last, Strided, RandomClip, Dense, Windows, FrameList, Uniform, Segments, Keyframes, Delta, AtRate,
    )
}  # fmt: skip
