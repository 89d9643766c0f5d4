"""Policies: which frames of a video make a clip; plans: which clips make an epoch. Pure numpy; no file, no DALI."""

from vidprep.samplers.parse import parse_policy
from vidprep.samplers.plan import Plan, PlannedClip
from vidprep.samplers.policies import (
    AtRate,
    Delta,
    Dense,
    First,
    FrameList,
    Keyframes,
    Last,
    RandomClip,
    Segments,
    Strided,
    Uniform,
    Windows,
)
from vidprep.samplers.spec import DecodeSpec

__all__ = [
    "AtRate",
    "DecodeSpec",
    "Delta",
    "Dense",
    "First",
    "FrameList",
    "Keyframes",
    "Last",
    "Plan",
    "PlannedClip",
    "RandomClip",
    "Segments",
    "Strided",
    "Uniform",
    "Windows",
    "parse_policy",
]
