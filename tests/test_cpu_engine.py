"""vidprep.loaders.engines.cpu and colour: right pixels or an error, whatever the packets."""

from __future__ import annotations

import dataclasses
import json
import threading

import av
import numpy as np
import pytest
from clips_made import X264, cut_of, make_paired_vp9, make_video
from sequential import FLAGS, rgb, sequential_frames

from vidprep.errors import DecodeError
from vidprep.loaders.engines.colour import RgbConverter
from vidprep.loaders.engines.cpu import CpuEngine, reorder_depth
from vidprep.loaders.frames import read_frames
from vidprep.loaders.packets import Packets

#: Kr, Kb (ITU-T H.273, table 4) and the FFmpeg numbers of the matrix and range.
MATRICES = {"bt709": (0.2126, 0.0722, 1), "bt601": (0.299, 0.114, 6), "bt2020": (0.2627, 0.0593, 9)}
RANGES = {"limited": 1, "full": 2}


def ycbcr_to_rgb(ycbcr, matrix, colour_range):
    """H.273 equations 38-40 and 20-28 for 8 bits, in floating point; (..., 3) levels."""
    kr, kb, _ = MATRICES[matrix]
    y, cb, cr = np.moveaxis(np.asarray(ycbcr, float), -1, 0)
    if colour_range == "limited":
        y, cb, cr = (y - 16) / 219, (cb - 128) / 224, (cr - 128) / 224
    else:
        y, cb, cr = y / 255, (cb - 128) / 255, (cr - 128) / 255
    r, b = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    g = (y - kr * r - kb * b) / (1 - kr - kb)
    return np.clip(np.stack((r, g, b), axis=-1) * 255, 0, 255)


def planes(pix_fmt, ycbcr):
    """A frame of (H, W, 3) YCbCr levels, chroma taken from every second sample where it is subsampled."""
    y, cb, cr = np.moveaxis(ycbcr.astype(np.uint8), -1, 0)
    if pix_fmt == "yuv420p":
        flat = np.concatenate((y.ravel(), cb[::2, ::2].ravel(), cr[::2, ::2].ravel()))
        return av.VideoFrame.from_ndarray(flat.reshape(-1, y.shape[1]), format=pix_fmt)
    return av.VideoFrame.from_ndarray(np.stack((y, cb, cr)), format=pix_fmt)


@pytest.mark.parametrize("pix_fmt", ["yuv444p", "yuv420p"])
@pytest.mark.parametrize("colour_range", RANGES)
@pytest.mark.parametrize("matrix", MATRICES)
def test_colours_are_within_two_levels_of_the_matrix_and_range_that_the_stream_states(matrix, colour_range, pix_fmt):
    levels = [(y, cb, cr) for y in (16, 80, 128, 180, 235) for cb in (60, 128, 200) for cr in (70, 128, 190)]
    for level in levels:
        ycbcr = np.full((16, 32, 3), level)
        frame = planes(pix_fmt, ycbcr)
        frame.colorspace, frame.color_range = MATRICES[matrix][2], RANGES[colour_range]
        error = np.abs(RgbConverter()(frame) - ycbcr_to_rgb(ycbcr, matrix, colour_range)).max()
        assert error <= 2, (level, error)


def noise(pix_fmt, width, height):
    frame, rng = av.VideoFrame(width, height, pix_fmt), np.random.default_rng(3)
    bits = frame.format.components[0].bits
    for plane in frame.planes:
        if bits > 8:
            plane.update(rng.integers(0, 1 << bits, plane.buffer_size // 2).astype("<u2").tobytes())
        else:
            plane.update(rng.bytes(plane.buffer_size))
    return frame


@pytest.mark.parametrize(("width", "height"), [(160, 144), (161, 145)])
@pytest.mark.parametrize(
    "pix_fmt",
    ["yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuv411p", "yuv440p", "yuv410p", "yuva420p", "nv12", "yuv420p10le",
     "yuv422p10le", "yuv444p12le", "gray", "gbrp", "rgb24", "bgra", "rgb555le"],
)  # fmt: skip
def test_the_conversion_is_swscales_own_bit_for_bit(pix_fmt, width, height):
    frame = noise(pix_fmt, width, height)
    for matrix, colour_range in ((1, 1), (6, 2), (9, 1), (2, 0)):
        frame.colorspace, frame.color_range = matrix, colour_range
        named = frame.to_ndarray(format="rgb24", interpolation=FLAGS)
        assert np.array_equal(RgbConverter()(frame), named), (matrix, colour_range)


@pytest.mark.parametrize("default", [None, "bt601", "bt709", "bt2020"])
def test_untagged_pictures_have_the_default_matrix(default):
    ycbcr = np.full((16, 16, 3), (120, 90, 180))
    expected = ycbcr_to_rgb(ycbcr, default or "bt601", "limited")
    assert np.abs(RgbConverter(colour_default=default)(planes("yuv444p", ycbcr)) - expected).max() <= 2


def test_the_default_does_not_touch_tagged_pictures():
    ycbcr = np.full((16, 16, 3), (120, 90, 180))
    frame = planes("yuv444p", ycbcr)
    frame.colorspace = MATRICES["bt709"][2]
    assert np.abs(RgbConverter(colour_default="bt2020")(frame) - ycbcr_to_rgb(ycbcr, "bt709", "limited")).max() <= 2


def test_a_matrix_that_swscale_does_not_know_is_refused_by_name():
    frame = planes("yuv444p", np.full((16, 16, 3), 128))
    frame.colorspace = 8
    with pytest.raises(DecodeError, match=r"colour matrix 8 \(ITU-T H.273\)"):
        RgbConverter()(frame)


def test_full_range_bt709_patches_of_a_real_file(cases):
    expected = json.loads((cases / "expected" / "color_fullrange_709.json").read_text())
    pictures = read_frames(cases / "files" / "color_fullrange_709.mp4", range(12), engine="cpu")
    for (x, y), level in zip(expected["patch_centres"], expected["rgb_patches"], strict=True):
        assert np.abs(pictures[:, y, x].astype(int) - level).max() <= expected["tolerance"]


def test_alpha_is_dropped():
    rgba = np.dstack((np.full((16, 16, 3), 200, np.uint8), np.full((16, 16), 7, np.uint8)))
    assert (RgbConverter()(av.VideoFrame.from_ndarray(rgba, "rgba")) == 200).all()


@pytest.fixture(scope="module")
def h264(tmp_path_factory):
    return make_video(tmp_path_factory.mktemp("cpu") / "a.mp4", frames=48, gop=24, options=X264)


@pytest.fixture(scope="module")
def truth(h264):
    return np.stack([rgb(frame) for frame in sequential_frames(h264)])


@pytest.fixture
def engine():
    return CpuEngine()


def replaced(cut, place, **changes):
    packets = list(cut.packets)
    packets[place] = packets[place]._replace(**changes)
    return dataclasses.replace(cut, packets=Packets.of(packets))


def test_wanted_frames_come_out_in_order(h264, truth, engine):
    assert np.array_equal(engine.decode(cut_of(h264, [3, 30, 31, 47])), truth[[3, 30, 31, 47]])


def test_unwanted_pictures_are_not_converted(h264, engine, monkeypatch):
    converted = []
    original = RgbConverter.__call__
    monkeypatch.setattr(
        RgbConverter,
        "__call__",
        lambda self, frame, out=None: converted.append(frame.pts) or original(self, frame, out),
    )
    cut = cut_of(h264, [20, 40])
    engine.decode(cut)
    assert converted == cut.frame_rows.tolist()


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2)],
    ids=["cut in half", "half zeros"],
)
def test_a_damaged_packet_is_an_error_for_frames_behind_it_and_not_for_the_next_clip(h264, truth, engine, damage):
    cut = cut_of(h264, range(24))
    place = next(i for i, packet in enumerate(cut.packets) if packet.row == 5)
    with pytest.raises(DecodeError, match="coded sample 5") as error:
        engine.decode(replaced(cut, place, payload=damage(cut.packets[place].data)))
    assert error.value.uri == str(h264)
    assert error.value.frame_index is not None
    assert np.array_equal(engine.decode(cut), truth[:24])


def test_a_damaged_packet_does_not_harm_other_segments(h264, truth, engine):
    cut = cut_of(h264, [40])
    assert np.array_equal(engine.decode(cut), truth[[40]])


def test_a_missing_wanted_packet_is_an_error_naming_the_frame(h264, engine):
    cut = cut_of(h264, [0, 6])
    kept = cut.packets[cut.packets.rows != cut.frame_rows[1]]
    with pytest.raises(DecodeError, match="gave no picture for it") as error:
        engine.decode(dataclasses.replace(cut, packets=kept))
    assert error.value.frame_index == 6


def test_a_stream_without_its_key_frame_is_an_error(h264, engine):
    cut = cut_of(h264, [10])
    with pytest.raises(DecodeError):
        engine.decode(dataclasses.replace(cut, packets=cut.packets[1:]))


def test_a_size_change_is_an_error_unless_a_size_is_asked_for(cases):
    cut = cut_of(cases / "files" / "res_change.ts", range(24))
    with pytest.raises(DecodeError, match="192x160, the video 160x144: its size changes") as error:
        CpuEngine().decode(cut)
    assert error.value.frame_index == 12
    assert CpuEngine(size=(72, 80)).decode(cut).shape == (24, 72, 80, 3)


def test_an_unknown_codec_is_an_error_naming_it(h264, engine):
    cut = cut_of(h264, [0])
    with pytest.raises(DecodeError, match="no decoder"):
        engine.decode(dataclasses.replace(cut, info=dataclasses.replace(cut.info, codec="unheard_of", stream_index=9)))


def test_threads_may_share_an_engine(h264, truth, engine):
    wrong = []

    def work(start):
        for _ in range(3):
            if not np.array_equal(engine.decode(cut_of(h264, range(start, start + 8))), truth[start : start + 8]):
                wrong.append(start)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 5, 20, 33)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_more_decoder_threads_give_the_same_pictures(h264, truth):
    assert np.array_equal(CpuEngine(num_threads=2).decode(cut_of(h264, range(48))), truth)


def test_the_reorder_depth_is_how_far_decoding_runs_ahead(h264):
    assert reorder_depth(cut_of(h264, range(24))) == 2
    assert reorder_depth(cut_of(h264, [0])) == 0


@pytest.fixture(scope="module")
def open_gops(tmp_path_factory):
    """H.264 whose recovery points tell the decoder to forget pictures from before them."""
    x264 = "keyint=13:open-gop=1:b-adapt=0:bframes=3:b-pyramid=normal:scenecut=0:bluray-compat=1"
    path = tmp_path_factory.mktemp("open_gops") / "a.mp4"
    return make_video(path, frames=40, options={"preset": "medium", "x264-params": x264})


def test_a_recovery_point_may_let_go_of_pictures_from_before_it(open_gops, engine):
    truth = [rgb(frame) for frame in sequential_frames(open_gops)]
    for frame in range(len(truth)):
        assert np.array_equal(engine.decode(cut_of(open_gops, [frame]))[0], truth[frame]), frame


def test_damage_behind_a_recovery_point_is_an_error(open_gops, engine):
    cut = cut_of(open_gops, [24])
    assert len(cut.packets) == 8
    for place, packet in enumerate(cut.packets):
        with pytest.raises(DecodeError, match=f"coded sample {packet.row}"):
            engine.decode(replaced(cut, place, payload=packet.data[: len(packet.data) // 2]))


def test_of_several_shown_frames_of_a_vp9_superframe_the_last_is_the_picture(tmp_path, engine):
    single, paired = make_paired_vp9(tmp_path)
    truth = [rgb(frame) for frame in sequential_frames(single)][1::2]
    assert np.array_equal(engine.decode(cut_of(paired)), np.stack(truth))
    for frame in range(12):
        assert np.array_equal(engine.decode(cut_of(paired, [frame]))[0], truth[frame]), frame


#: AV_CODEC_FLAG_INTERLACED_DCT and AV_CODEC_FLAG_INTERLACED_ME.
INTERLACED = "+ildct+ilme"


@pytest.mark.parametrize("suffix", ["mp4", "avi", "ts"])
def test_b_vops_of_interlaced_mpeg4_go_by_the_first_of_them(tmp_path, engine, suffix):
    path = make_video(tmp_path / f"a.{suffix}", codec="mpeg4", frames=40, options={"bf": "3", "flags": INTERLACED})
    truth = [rgb(frame) for frame in sequential_frames(path)]
    assert len(truth) == 40
    for frame in range(40):
        assert np.array_equal(engine.decode(cut_of(path, [frame]))[0], truth[frame]), frame


@pytest.mark.parametrize(("codec", "options"), [("libx265", {"x265-params": "log-level=none"}), ("mpeg4", {"bf": "2"}),
    ("mpeg2video", {"bf": "2"}), ("libvpx", {}), ("libvpx-vp9", {"cpu-used": "8"}), ("libsvtav1", {"preset": "12"})])  # fmt: skip
def test_every_codec_is_frame_exact_singly(tmp_path, engine, codec, options):
    path = make_video(tmp_path / "a.mkv", codec=codec, frames=24, gop=8, options=options)
    truth = [rgb(frame) for frame in sequential_frames(path)]
    assert len(truth) == 24
    for frame in (23, 0, 7, 8, 16, 11):
        assert np.array_equal(engine.decode(cut_of(path, [frame]))[0], truth[frame]), frame
