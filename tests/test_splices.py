"""Where what is decoded does not follow from what came before: edit lists, lying sync tables, changes of the set-up."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from drawn import draw_number
from isobmff_files import Movie, box, visual_entry
from numbered_movies import ONE, STEP, coded, frame_ticks, movie, numbers, options

from vidprep.errors import DecodeError
from vidprep.indexes import build_index, open_index, probe
from vidprep.loaders.cut import read_cut
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.records import SampleFlag
from vidprep.sources import open_source

if TYPE_CHECKING:
    from pathlib import Path

ENCODERS = ["libx264", "libx265", "mpeg4", "libvpx-vp9"]


def written(folder: Path, made: Movie) -> Path:
    path = folder / "a.mp4"
    path.write_bytes(made.file())
    return path


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    "edits",
    [
        [(10, 0), (10, 20)],
        [(10, 20), (10, 0)],
        [(5, 2), (5, 14), (7, 30)],
        [(7, 11), (7, 25)],
        [(7, 25), (7, 26)],
        [(6, 5), (6, 5)],
    ],
)
def test_segments_follow_each_other_without_a_hole_whatever_the_order_of_coding(
    encoder: str, edits: list[tuple[int, int]], tmp_path: Path
) -> None:
    path = written(tmp_path, movie(coded(encoder), edits=edits))
    want = [frame for count, first in edits for frame in range(first, first + count)]
    assert probe(str(path)).timeline.pts.tolist() == frame_ticks(len(want))
    assert numbers(path, list(range(len(want)))) == want
    assert [numbers(path, [place])[0] for place in range(len(want))] == want


@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
@pytest.mark.parametrize("edits", [[(7, 11), (7, 25)], [(7, 25), (7, 11)], [(7, 13), (7, 12)], [(7, 0), (7, 20)]])
def test_segments_that_start_in_an_open_gop_are_decoded_apart(
    encoder: str, edits: list[tuple[int, int]], tmp_path: Path
) -> None:
    path = written(tmp_path, movie(coded(encoder, open_gop="1"), edits=edits))
    want = [frame for count, first in edits for frame in range(first, first + count)]
    assert numbers(path, list(range(len(want)))) == want


def test_an_empty_edit_and_a_dwell_keep_their_times_among_reordered_pictures(tmp_path: Path) -> None:
    delay = coded("libx264").delay
    edits = [(10, 0), (200, -1, ONE), (10, 10), (400, (delay + 30) * STEP, 0)]
    path = written(tmp_path, movie(coded("libx264"), edits=edits))
    pts = probe(str(path)).timeline.pts
    assert (pts // STEP).tolist() == [*range(10), *range(15, 25), 25]
    assert numbers(path, [0, 9, 10, 19, 20]) == [0, 9, 10, 19, 30]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("stss", [None, [], list(range(1, 38)), [1], [3, 5, 11, 18, 19, 20]])
def test_a_lying_sync_table_costs_no_frame_of_a_trimmed_film(
    encoder: str, stss: list[int] | None, tmp_path: Path
) -> None:
    path = written(tmp_path, movie(coded(encoder), stss=stss, edits=[(5, 20), (8, 16)]))
    want = [*range(20, 25), *range(16, 24)]
    assert probe(str(path)).timeline.pts.tolist() == frame_ticks(13)
    assert numbers(path, list(range(13))) == want


def test_a_healthy_film_from_its_start_is_indexed_without_a_look_at_its_samples() -> None:
    from vidprep.containers import isobmff

    data = movie(coded("libx264"), edits=[(20, 0)]).file()
    first = data.index(b"mdat") - 4

    def read_at(offset: int, size: int) -> bytes:
        assert offset < first
        return data[offset : min(offset + size, first + 16)]

    assert isobmff.parse(read_at, len(data)).table.num_frames == 20


OTHER = {"libx264": {"cabac": "0", "ref": "1", "bframes": "2"}, "libx265": {"ctu": "16", "bframes": "2"}}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_second_sample_description_is_told_to_the_decoder_in_band(encoder: str, tmp_path: Path) -> None:
    first, second = coded(encoder, frames=24), coded(encoder, frames=16, first=100, **OTHER.get(encoder, {}))
    path = written(tmp_path, movie(first, second))
    want = [*range(24), *range(100, 116)]
    video = probe(str(path))
    assert video.timeline.pts.tolist() == frame_ticks(40)
    assert video.parsed.warnings == ()
    assert numbers(path, list(range(40))) == want
    assert numbers(path, [39, 3, 27, 23, 24]) == [115, 3, 103, 23, 100]
    assert [numbers(path, [place])[0] for place in range(18, 30)] == want[18:30]


@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
def test_later_configurations_survive_the_index(encoder: str, tmp_path: Path) -> None:
    made = movie(coded(encoder, frames=24), coded(encoder, frames=16, first=100, **OTHER[encoder]), edits=[(30, 10)])
    path = written(tmp_path, made)
    build_index([str(path)], tmp_path / "index", workers=1)
    video = open_index(tmp_path / "index")[0]
    assert video.info.later_configs == probe(str(path)).info.later_configs
    ((row, config),) = video.info.later_configs
    assert video.table.flags[row] & SampleFlag.RESTART
    assert video.info.at_row(row).codec_config == config != video.info.at_row(row - 1).codec_config
    with open_source(str(path)) as source:
        cut = read_cut(video, source, np.array([13, 14, 29]))
    assert CpuEngine().decode(cut).shape[0] == 3
    assert cut.packets[-1].row > row


def test_descriptions_of_another_size_are_an_error_until_a_size_is_named(tmp_path: Path) -> None:
    made = movie(coded("libx264", frames=24), coded("libx264", frames=16, first=100, size=(176, 160)))
    path = written(tmp_path, made)
    assert numbers(path, [23]) == [23]
    with pytest.raises(DecodeError, match="its size changes"):
        numbers(path, [23, 24])
    assert numbers(path, [23, 24], size=(144, 160)) == [23, 100]


def test_a_description_of_another_codec_is_left_out_with_a_warning(tmp_path: Path) -> None:
    path = written(tmp_path, movie(coded("libx264", frames=24), coded("mpeg4", frames=16, first=100)))
    video = probe(str(path))
    assert video.timeline.num_frames == 24
    assert "16 of 40 samples need another decoder set-up" in video.parsed.warnings[0].message


def test_a_set_up_that_changes_with_every_sample_is_cut_off(tmp_path: Path) -> None:
    entries = [visual_entry(b"avc1", box(b"avcC", bytes((1, 100, 0, 11, 255, 224, number)))) for number in range(2)]
    runs = [(number, 1, number % 2 + 1) for number in range(1, 2001)]
    data = Movie(sizes=[9] * 2000, entries=entries, stsc=runs).file()
    (tmp_path / "a.mp4").write_bytes(data)
    video = probe(str(tmp_path / "a.mp4"))
    assert len(video.info.later_configs) == 256
    assert any("changes too often" in finding.message for finding in video.parsed.warnings)


def test_a_description_that_does_not_exist_is_the_first(tmp_path: Path) -> None:
    """As found by fuzzing: number 9 of two."""
    first, second = coded("libx264", frames=24), coded("libx264", frames=16, first=100, **OTHER["libx264"])
    path = written(tmp_path, movie(first, second, stsc=[(1, 12, 9), (2, 12, 1), (3, 16, 2)]))
    assert numbers(path, [0, 13, 24, 39]) == [0, 13, 100, 115]


def test_lost_samples_are_followed_by_a_fresh_start(tmp_path: Path) -> None:
    """Samples 14 and 15 are said to lie behind the end of the file."""
    made = movie(coded("libx264", open_gop="1"), stsc=[(1, 13, 1), (2, 2, 1), (3, 22, 1)])
    data = bytearray(made.file())
    at = data.index(b"stco") + 12
    data[at + 4 : at + 8] = b"\x7f\xff\xff\xff"
    (tmp_path / "a.mp4").write_bytes(data)
    video = probe(str(tmp_path / "a.mp4"))
    offered = (video.timeline.pts // STEP).tolist()
    assert 0 < len(offered) < 37
    assert numbers(tmp_path / "a.mp4", list(range(len(offered)))) == offered


@pytest.mark.parametrize("encoder", ENCODERS)
def test_nothing_is_decoded_from_a_predicted_picture(encoder: str, tmp_path: Path) -> None:
    """The key picture in front is gone; the sync table still calls its follower one."""
    whole = coded(encoder)
    part = type(whole)(
        payloads=whole.payloads[1:], keys=(True, *whole.keys[2:]), ranks=whole.ranks[1:], entry=whole.entry
    )
    build_index([str(written(tmp_path, movie(part, edits=None)))], tmp_path / "index", workers=1)
    video = open_index(tmp_path / "index")[0]
    assert not video.keys_verified
    with open_source(video.uri) as source, pytest.raises(DecodeError):
        CpuEngine().decode(read_cut(video, source, np.array([0])))


@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
def test_single_frames_of_a_joined_recording_with_open_gops(encoder: str, tmp_path: Path) -> None:
    """The clock starts again at the join; leading pictures are told by the order of the frames."""
    file = io.BytesIO()
    with av.open(file, "w", format="mpegts") as container:
        stream = container.add_stream(encoder, rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 144, "yuv420p"
        stream.codec_context.thread_count, stream.codec_context.options = 1, options(encoder, open_gop="1")
        for index in range(37):
            picture = av.VideoFrame.from_ndarray(draw_number(index), format="rgb24").reformat(format="yuv420p")
            picture.pts, picture.time_base = index, Fraction(1, 25)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    path = tmp_path / "a.ts"
    path.write_bytes(file.getvalue() * 2)
    video = probe(str(path))
    assert video.table.order is not None
    want = [*range(37), *range(37)]
    assert [numbers(path, [place])[0] for place in range(74)] == want
    assert numbers(path, list(range(73, -1, -3))) == want[::-3]
