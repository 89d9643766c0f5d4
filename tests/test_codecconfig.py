"""Stream facts against what PyAV says of the same streams."""

from __future__ import annotations

import json

import av
import pytest
from encoded import Clip, encode
from hypothesis import given
from hypothesis import strategies as st

from vidprep.containers.codecconfig import READERS, CodecFacts, codec_facts
from vidprep.containers.nvdec_support import nvdec_class

#: PyAV shows no profile for these decoders; ours say what the header says.
PROFILE_IS_OURS = {"vp8", "vvc"}


def _first_video(path: str) -> tuple[av.VideoCodecContext, bytes] | None:
    """Codec context and first packet, or None where FFmpeg does not know the picture format."""
    try:
        with av.open(path, metadata_errors="replace") as container:
            stream = next((s for s in container.streams.video if s.codec_context is not None), None)
            if stream is None or stream.codec_context.pix_fmt is None:
                return None
            packet = next((p for p in container.demux(stream) if p.size), None)
            return None if packet is None else (stream.codec_context, bytes(packet))
    except av.error.FFmpegError:
        return None


def test_facts_of_the_corpus_are_what_pyav_says(corpus):
    # 1257700 and test_case_1224369 (fuzzed key frames) and 1393272, 1905231 have headers that contradict the container,
    # whose size FFmpeg reports; what is compared here is what the bitstream says.
    contradicted = ("1257700", "1393272", "1905231", "test_case_1224369")
    seen = 0
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        name = json.loads(line)["name"]
        found = _first_video(str(corpus / "files" / name))
        if found is None or any(part in name for part in contradicted):
            continue
        context, first = found
        codec = context.codec.canonical_name
        if codec not in READERS:
            continue
        facts = codec_facts(codec, context.extradata or b"", first)
        assert facts.pix_fmt == context.pix_fmt, name
        if facts.width:
            assert (facts.width, facts.height) == (context.width, context.height), name
        if codec not in PROFILE_IS_OURS:
            assert facts.profile == context.profile, name
        if facts.colour_range == "full":
            assert context.color_range == 2, name
        seen += 1
    assert seen > 110


def _opened(clip: Clip) -> tuple[av.VideoCodecContext, av.VideoFrame]:
    context = av.CodecContext.create({"av1": "libdav1d"}.get(clip.codec, clip.codec), "r")
    context.extradata = clip.config or None
    frames = []
    for packet in clip.packets:
        frames += context.decode(av.Packet(packet.payload))
    return context, (frames + context.decode(None))[0]


@pytest.mark.parametrize(
    ("encoder", "pix_fmt", "options", "nvdec"),
    [
        ("libx264", "yuv420p", {}, "yes"),
        ("libx264", "yuv420p", {"x264-params": "fullrange=on:colormatrix=bt709:colorprim=bt709:transfer=bt709"}, "yes"),
        ("libx264", "yuv420p", {"x264-params": "interlaced=1"}, "yes"),
        ("libx264", "yuv420p10le", {}, "some"),
        ("libx264", "yuv422p", {}, "some"),
        ("libx264", "yuv444p", {}, "no"),
        ("libx264", "gray", {}, "no"),
        ("libx265", "yuv420p", {"x265-params": "log-level=none:range=full"}, "yes"),
        ("libx265", "yuv420p10le", {"x265-params": "log-level=none:temporal-layers=3"}, "yes"),
        ("libx265", "yuv422p10le", {"x265-params": "log-level=none"}, "some"),
        ("libx265", "yuv444p12le", {"x265-params": "log-level=none:scaling-list=default"}, "some"),
        ("libx265", "gray", {"x265-params": "log-level=none"}, "no"),
        ("libvpx", "yuv420p", {}, "yes"),
        ("libvpx-vp9", "yuv420p", {}, "yes"),
        ("libvpx-vp9", "yuv444p", {}, "no"),
        ("libsvtav1", "yuv420p", {"preset": "12"}, "some"),
        ("libsvtav1", "yuv420p10le", {"preset": "12"}, "some"),
        ("mpeg4", "yuv420p", {"bf": "1"}, "yes"),
        ("mpeg2video", "yuv420p", {}, "yes"),
        ("mpeg2video", "yuv422p", {}, "no"),
        ("mpeg1video", "yuv420p", {}, "yes"),
        ("mjpeg", "yuvj420p", {}, "no"),
        ("mjpeg", "yuvj444p", {}, "no"),
        ("h263", "yuv420p", {}, "no"),
    ],
)
@pytest.mark.parametrize("global_header", [True, False])
def test_facts_of_a_made_clip_are_what_the_decoder_says(encoder, pix_fmt, options, nvdec, global_header):
    size = (176, 144) if encoder == "h263" else (178, 148)
    clip = encode(encoder, frames=3, size=size, pix_fmt=pix_fmt, options=options, global_header=global_header)
    context, frame = _opened(clip)
    facts = codec_facts(clip.codec, clip.config, clip.packets[0].payload)
    assert (facts.width, facts.height) == (frame.width, frame.height) == size
    assert facts.pix_fmt == frame.format.name
    assert facts.nvdec == nvdec
    if clip.codec not in PROFILE_IS_OURS:
        assert facts.profile == context.profile
    if clip.codec in ("h264", "hevc"):
        assert (facts.coded_width, facts.coded_height) == (context.coded_width, context.coded_height)
    if clip.codec in ("h264", "hevc", "mpeg1video", "mpeg2video"):
        assert facts.header_fps == 25
    if clip.codec == "h264":
        assert facts.interlaced is ("interlaced=1" in str(options))


def test_colours_and_range_are_named_as_tagged():
    options = {"x264-params": "fullrange=on:colormatrix=smpte170m:colorprim=bt470bg:transfer=bt709"}
    facts = codec_facts("h264", encode("libx264", frames=1, options=options).config)
    assert (facts.colour_matrix, facts.colour_range) == ("bt601", "full")
    assert (facts.colour_primaries, facts.colour_transfer) == ("bt470bg", "bt709")
    assert facts.pix_fmt == "yuvj420p"
    untagged = codec_facts("h264", encode("libx264", frames=1).config)
    assert (untagged.colour_matrix, untagged.colour_range) == (None, None)


@pytest.mark.parametrize(("options", "depth"), [("bframes=0", 0), ("bframes=1", 1), ("bframes=3:b-pyramid=normal", 2)])
def test_reorder_depth_is_how_far_decode_order_runs_ahead(options, depth):
    clip = encode("libx264", frames=20, options={"x264-params": f"{options}:b-adapt=0:keyint=30:scenecut=0"})
    pts = [packet.pts for packet in clip.packets]
    ahead = max(sum(earlier > time for earlier in pts[:row]) for row, time in enumerate(pts))
    assert codec_facts("h264", clip.config).reorder_depth == ahead == depth


def test_sample_aspect_ratio_is_read_from_table_and_spelt_out():
    for text, ratio in (("sar=4/3", (4, 3)), ("sar=17/5", (17, 5))):
        clip = encode("libx264", frames=1, options={"x264-params": text})
        assert codec_facts("h264", clip.config).sar == ratio


def test_avc3_takes_parameter_sets_from_the_first_sample():
    with_sets = encode("libx264", frames=1, global_header=False)
    units = with_sets.packets[0].payload.split(b"\0\0\1")[1:]
    units = [unit.rstrip(b"\0") for unit in units]
    sample = b"".join(len(unit).to_bytes(2, "big") + unit for unit in units if len(unit) < 65536)
    empty_avcc = bytes((1, 100, 0, 10, 0xFD, 0xE0, 0))
    facts = codec_facts("h264", empty_avcc, sample)
    assert (facts.nal_length_size, facts.width, facts.height) == (2, 160, 144)


def test_vpcc_is_read_with_and_without_its_version():
    body = bytes((2, 41, 10 << 4 | 1 << 1, 9, 16, 9, 0, 0))  # profile 2, level 4.1, 10 bit 4:2:0, BT.2100 PQ
    facts = codec_facts("vp9", body)
    assert facts == codec_facts("vp9", b"\1\0\0\0" + body)
    assert (facts.profile, facts.level, facts.pix_fmt) == ("Profile 2", "4.1", "yuv420p10le")
    assert (facts.colour_matrix, facts.colour_transfer, facts.colour_range) == ("bt2020", "smpte2084", "limited")


def test_sizes_beyond_a_generation_move_the_class():
    assert nvdec_class("h264", "4:2:0", 8, 4096, 4096) == "yes"
    assert nvdec_class("h264", "4:2:0", 8, 4112, 2160) == "some"
    assert nvdec_class("hevc", "4:2:0", 10, 8208, 4320) == "no"
    assert nvdec_class("prores", "4:2:2", 10, 1920, 1080) == "no"
    assert nvdec_class("h264", None, None, 0, 0) == "unknown"


@given(st.sampled_from([*sorted(READERS), "unknown"]), st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_give_facts(codec, config, sample):
    assert isinstance(codec_facts(codec, config, sample), CodecFacts)


CONFIGS = {
    "h264": encode("libx264", frames=1).config,
    "hevc": encode("libx265", frames=1, options={"x265-params": "log-level=none"}).config,
    "mpeg4": encode("mpeg4", frames=1).config,
}


@given(st.sampled_from(sorted(CONFIGS)), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6))
def test_a_damaged_configuration_gives_facts(codec, changes):
    config = bytearray(CONFIGS[codec])
    for place, value in changes:
        config[place % len(config)] = value
    facts = codec_facts(codec, bytes(config))
    assert facts.width <= facts.coded_width
