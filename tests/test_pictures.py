"""The pictures in the policies' docstrings (and so in docs/policies.md) show what the policies do."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from vidprep.records import Timeline
from vidprep.samplers import parse_policy
from vidprep.samplers.policies import POLICIES

ROW = re.compile(r"^ {4,}(?P<text>[^|]*?)\s*\|(?P<picture>[.'a-zA-Z]+)\|")
PAIR = re.compile(r"(\w+)=(\"\w+\"|\([^)]*\)|[-\w]+)")
#: What a picture's heading says for all of its rows.
HEADINGS = {"uniform": {"frames": 4}, "segments": {"frames": 3}}


def rows():
    """(policy, row of the clip, picture) of every picture whose frames are not drawn at random."""
    for name, kind in POLICIES.items():
        given, clip = {}, 0
        for line in (kind.__doc__ or "").splitlines():
            row = ROW.match(line)
            if row is None:
                continue
            pairs = {key: value.strip('"') for key, value in PAIR.findall(row["text"])}
            given, clip = (pairs, 0) if pairs else (given, clip + 1)
            spec = {"name": name, **HEADINGS.get(name, {}), **given}
            spec |= {key: re.findall(r"-?\d+", value) for key, value in given.items() if "(" in value}
            if not drawn_at_random(spec):
                yield spec, clip, row["picture"].replace("'", "")


def drawn_at_random(spec):
    """Whether the frames depend on the key: their picture is but one of many."""
    return spec["name"] == "random" or spec.get("mode", "random" if spec["name"] == "segments" else None) == "random"


CASES = list(rows())


@pytest.mark.parametrize(("spec", "clip", "picture"), CASES, ids=[f"{c[0]['name']}-{i}" for i, c in enumerate(CASES)])
def test_a_picture_shows_the_frames_that_are_taken(spec, clip, picture):
    keys = np.arange(0, len(picture), 4) if spec["name"] == "keyframes" else np.zeros(0, np.int64)
    timeline = Timeline(pts=np.arange(len(picture)), time_base=Fraction(1, 30), last_duration_ticks=1, keyframes=keys)
    frames = parse_policy(spec).choose(timeline, clip=clip).frame_index
    assert sorted(set(frames.tolist())) == [i for i, mark in enumerate(picture) if mark != "."]


def test_most_policies_have_a_picture_that_is_checked():
    assert len(CASES) > 20
    assert {"first", "last", "strided", "dense", "windows", "list", "uniform", "keyframes", "delta"} <= {
        spec["name"] for spec, _, _ in CASES
    }
