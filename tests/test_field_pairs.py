"""Fields of H.264 in samples of their own: two of them are one frame, in the table, the cut and the engine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from clips_made import cut_of
from field_pairs import samples_of, write
from sequential import rgb, sequential_frames

from vidprep.errors import DecodeError
from vidprep.indexes import probe
from vidprep.loaders import read_frames
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.packets import Packets

FRAMES = 24


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "avi"])
def test_each_frame_alone_is_the_one_of_a_sequential_decode(tmp_path, container, apart, seed):
    path = write(tmp_path / f"a.{container}", samples_of(FRAMES, seed, apart=apart))
    truth = [rgb(frame) for frame in sequential_frames(path)]
    video = probe(str(path))
    assert video.table.num_frames == len(truth) == FRAMES
    assert np.array_equal(read_frames(video, range(FRAMES), engine="cpu"), truth)
    for frame in range(FRAMES):
        assert np.array_equal(read_frames(video, [frame], engine="cpu")[0], truth[frame]), frame


def test_a_damaged_second_field_is_an_error_of_its_frame(tmp_path):
    path = write(tmp_path / "a.mp4", samples_of(FRAMES, 1, apart=True))
    table = probe(str(path)).table
    frame = next(i for i, row in enumerate(table.frame_rows.tolist()) if i > 2 and row + 1 not in table.frame_rows)
    cut = cut_of(path, [frame])
    packets = list(cut.packets)
    assert not packets[-1].shown
    packets[-1] = packets[-1]._replace(payload=packets[-1].data[:40])
    with pytest.raises(DecodeError) as error:
        CpuEngine().decode(dataclasses.replace(cut, packets=Packets.of(packets)))
    assert error.value.frame_index == frame
