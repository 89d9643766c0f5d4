"""Facts of single samples, proven by decoding without them and from them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from encoded import Clip, Packet, decode, demuxed, encode
from hypothesis import given
from hypothesis import strategies as st

from vidprep.containers.bitstream import (
    HEAD_BYTES,
    READERS,
    SampleFacts,
    head_bytes,
    is_understood,
    pair_fields,
    sample_facts,
)
from vidprep.containers.nal_units import nal_units
from vidprep.records import StreamInfo

QUIET = "log-level=none"
CLIPS: dict[str, tuple[str, dict[str, str], str]] = {
    "x264": ("libx264", {}, "yuv420p"),
    "x264_open_gop": ("libx264", {"x264-params": "keyint=12:open-gop=1:bframes=3:b-pyramid=normal"}, "yuv420p"),
    "x264_intra_refresh": ("libx264", {"x264-params": "keyint=20:intra-refresh=1"}, "yuv420p"),
    "x264_interlaced": ("libx264", {"x264-params": "keyint=20:tff=1:interlaced=1"}, "yuv420p"),
    "x264_10bit_slices": ("libx264", {"x264-params": "keyint=20:slices=4"}, "yuv420p10le"),
    "x264_422": ("libx264", {}, "yuv422p"),
    "x264_444": ("libx264", {}, "yuv444p"),
    "x265_open_gop": ("libx265", {"x265-params": f"keyint=12:min-keyint=12:open-gop=1:{QUIET}"}, "yuv420p"),
    "x265_sub_layers": ("libx265", {"x265-params": f"keyint=15:b-pyramid=1:bframes=5:temporal-layers=3:{QUIET}"},
                        "yuv420p10le"),
    "x265_intra_refresh": ("libx265", {"x265-params": f"open-gop=0:intra-refresh=1:{QUIET}"}, "yuv444p"),
    "vp8_altref": ("libvpx", {"auto-alt-ref": "1", "lag-in-frames": "16", "g": "20"}, "yuv420p"),
    "vp9_altref": ("libvpx-vp9", {"auto-alt-ref": "1", "lag-in-frames": "16", "g": "20"}, "yuv420p"),
    "av1": ("libsvtav1", {"preset": "8", "g": "20", "svtav1-params": "hierarchical-levels=4"}, "yuv420p"),
    "av1_low_delay": ("libsvtav1", {"preset": "10", "svtav1-params": "pred-struct=1"}, "yuv420p10le"),
    "mpeg4": ("mpeg4", {"bf": "2", "g": "12"}, "yuv420p"),
    "mpeg2": ("mpeg2video", {"bf": "2", "g": "12"}, "yuv420p"),
    "mpeg1": ("mpeg1video", {"bf": "2", "g": "12"}, "yuv420p"),
    "mjpeg": ("mjpeg", {}, "yuvj420p"),
    "msmpeg4v2": ("msmpeg4v2", {"g": "12"}, "yuv420p"),
    "msmpeg4v3": ("msmpeg4", {"g": "12"}, "yuv420p"),
    "wmv1": ("wmv1", {"g": "12"}, "yuv420p"),
    "wmv2": ("wmv2", {"g": "12"}, "yuv420p"),
}  # fmt: skip
#: Clips whose encoder makes pictures that nothing refers to.
WITH_DISPOSABLE = {
    "x264", "x264_open_gop", "x264_intra_refresh", "x264_interlaced", "x264_10bit_slices", "x264_422", "x264_444",
    "x265_open_gop", "x265_sub_layers", "x265_intra_refresh", "av1",
    "av1_low_delay", "mpeg4", "mpeg2", "mpeg1", "mjpeg",
}  # fmt: skip


@pytest.fixture(scope="module", params=sorted(CLIPS))
def clip(request) -> tuple[str, Clip]:
    encoder, options, pix_fmt = CLIPS[request.param]
    return request.param, encode(encoder, frames=36, options=options, pix_fmt=pix_fmt)


def _facts(clip: Clip) -> list[SampleFacts]:
    return [sample_facts(clip.info, packet.payload) for packet in clip.packets]


def test_disposable_samples_change_no_other_picture(clip):
    name, made = clip
    disposable = {row for row, fact in enumerate(_facts(made)) if fact.disposable}
    assert bool(disposable) == (name in WITH_DISPOSABLE)
    whole, rows = decode(made), range(len(made.packets))
    for dropped in [{row} for row in sorted(disposable)[:8]] + [disposable]:
        times = {made.packets[row].pts for row in dropped}
        expected = {pts: digest for pts, digest in whole.items() if pts not in times}
        assert decode(made, [row for row in rows if row not in dropped]) == expected


def test_decoding_from_a_key_sample_gives_the_same_pictures(clip):
    _, made = clip
    whole, keys = decode(made), [row for row, fact in enumerate(_facts(made)) if fact.key]
    assert keys[0] == 0
    for key in keys:
        start = made.packets[key].pts
        later = {
            pts: digest for pts, digest in decode(made, list(range(key, len(made.packets)))).items() if pts >= start
        }
        assert later == {pts: digest for pts, digest in whole.items() if pts >= start}


def test_no_key_sample_is_missed(clip):
    """FFmpeg's encoders flag them; the only flag that is no true key is that of a gradual refresh."""
    name, made = clip
    facts = _facts(made)
    flagged = [row for row, packet in enumerate(made.packets) if packet.is_keyframe]
    gradual = [row for row in flagged if facts[row].recovery_frames]
    assert [row for row in flagged if row not in gradual] == [row for row, fact in enumerate(facts) if fact.key]
    assert bool(gradual) == (name == "x264_intra_refresh")


def test_a_head_never_contradicts_the_whole_sample(clip):
    _, made = clip
    limit = head_bytes(made.info)
    for packet in made.packets:
        whole = sample_facts(made.info, packet.payload)
        for size in (0, 3, 7, 20, limit):
            head = sample_facts(made.info, packet.payload[:size], complete=size >= len(packet.payload))
            for name in ("key", "shown", "has_picture", "disposable", "recovery_frames"):
                if size == limit or name in ("key", "has_picture"):
                    assert getattr(head, name) in (None, getattr(whole, name)), (size, name)


def test_heads_tell_the_keys_of_the_corpus(corpus):
    """PyAV's key flag, but for gradual recovery points and files that are encrypted, damaged, or key throughout by their word."""
    odd = (
        "1414444",
        "gizmo-frag",
        "1905231",
        "invalid_vp9",
        "h264_aac_48000",
        "test-097",
        "jcodec__test.264",
        "testASF",
    )
    compared = 0
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        entry = json.loads(line)
        is_odd = any(part in entry["name"] for part in odd) or entry["size"] > 4_000_000
        if is_odd or not entry["n_packets"] or not entry["codec"]:
            continue
        found = demuxed(str(corpus / "files" / entry["name"]), limit=120)
        if not is_understood(found.codec) or entry["decode_errors"] == "yes":
            continue
        for row, packet in enumerate(found.packets):
            limit = head_bytes(found.info) or len(packet.payload)
            fact = sample_facts(found.info, packet.payload[:limit], complete=len(packet.payload) <= limit)
            if fact.key is None or fact.recovery_frames:
                continue
            assert fact.key == packet.is_keyframe, (entry["name"], row)
            compared += 1
    assert compared > 6000


@pytest.mark.parametrize(
    ("case", "hidden", "total"),
    [("vp8_altref.webm", 2, 62), ("vp9_altref.webm", 0, 60), ("stts_zero_delta.mp4", 40, 60)],
)
def test_samples_that_show_nothing_are_told(cases, case, hidden, total):
    facts = _facts(demuxed(str(cases / "files" / case)))
    assert (sum(fact.shown is False for fact in facts), len(facts)) == (hidden, total)


def test_leading_pictures_of_an_open_gop_are_told(cases):
    made = demuxed(str(cases / "files" / "hevc_stss_first_only.mp4"))
    facts = _facts(made)
    keys = [row for row, fact in enumerate(facts) if fact.key]
    assert len(keys) == 3
    for key, stop in zip(keys, [*keys[1:], len(facts)], strict=True):
        for row in range(key + 1, stop):
            assert facts[row].leading == (made.packets[row].pts < made.packets[key].pts)
    alone = decode(made, list(range(keys[1], keys[2])))
    shown = {made.packets[row].pts for row in range(keys[1], keys[2]) if not facts[row].needs_gop_before}
    assert set(alone) == shown


def test_parameter_sets_in_a_sample_keep_it():
    """A picture that nothing refers to, in a sample whose parameter sets later samples need."""
    made = encode("libx264", frames=12)
    row = next(row for row, fact in enumerate(_facts(made)) if fact.disposable)
    units = b"".join(
        len(unit).to_bytes(4, "big") + unit for unit in nal_units(_annex_b(made), 0) if unit[0] & 31 in (7, 8)
    )
    info = replace(made.info, nal_length_size=4)
    as_lengths = b"".join(len(unit).to_bytes(4, "big") + unit for unit in nal_units(made.packets[row].payload, 0))
    assert sample_facts(info, as_lengths).disposable is True
    assert sample_facts(info, units + as_lengths).disposable is False


def _annex_b(made: Clip) -> bytes:
    return made.config


def test_two_fields_make_a_pair():
    top = SampleFacts(has_picture=True, field="top", frame_num=3, reference=True)
    bottom = replace(top, field="bottom")
    assert pair_fields(top, bottom)
    assert pair_fields(bottom, top)
    assert not pair_fields(top, top)
    assert not pair_fields(top, replace(bottom, frame_num=4))
    assert not pair_fields(top, replace(bottom, reference=False))
    assert not pair_fields(SampleFacts(), SampleFacts())


class BoolEncoder:
    """RFC 6386 section 7.3, for flags of probability 1/2."""

    def __init__(self) -> None:
        self.out, self.low, self.range, self.count = bytearray(), 0, 255, 24

    def flag(self, bit: int) -> None:
        split = 1 + ((self.range - 1) >> 1)
        self.range, self.low = (self.range - split, self.low + split) if bit else (split, self.low)
        while self.range < 128:
            self.range <<= 1
            if self.low >> 31:
                self._carry()
            self.low = self.low << 1 & 0xFFFFFFFF
            self.count -= 1
            if not self.count:
                self.out.append(self.low >> 24)
                self.low, self.count = self.low & 0xFFFFFF, 8

    def _carry(self) -> None:
        place = len(self.out) - 1
        while self.out[place] == 255:
            self.out[place] = 0
            place -= 1
        self.out[place] += 1

    def u(self, value: int, bits: int) -> None:
        for bit in reversed(range(bits)):
            self.flag(value >> bit & 1)


def _vp8_inter_frame(*, golden: int = 0, last: int = 0, keeps_probabilities: int = 0) -> bytes:
    """A VP8 frame with a header of our choice and noise for macroblocks."""
    bits = BoolEncoder()
    bits.u(0, 1 + 1 + 6 + 3)  # no segmentation; filter
    bits.u(0, 1 + 2)  # no deltas; one partition
    bits.u(60, 7)
    bits.u(0, 5)
    bits.u(golden, 1)
    bits.u(0, 1)  # altref
    bits.u(0, 2 if golden else 4)  # copies
    bits.u(0, 2)  # sign biases
    bits.u(keeps_probabilities, 1)
    bits.u(last, 1)
    bits.u(0x5A5A5A5A, 32)
    partition = bytes(bits.out) + bytes(range(7, 207))
    tag = 1 | 1 << 4 | len(partition) << 5
    return tag.to_bytes(3, "little") + partition + bytes(range(200))


def test_a_vp8_frame_that_changes_nothing_is_disposable():
    made = encode("libvpx", frames=12, options={"auto-alt-ref": "0"})
    whole = decode(made)

    def with_frame(payload: bytes) -> dict[int, str]:
        extra = Packet(payload, 500, 500, is_keyframe=False)
        return decode(replace(made, packets=(*made.packets[:6], extra, *made.packets[6:])))

    harmless = _vp8_inter_frame()
    assert sample_facts(made.info, harmless).disposable is True
    shown = with_frame(harmless)
    assert shown.pop(500)
    assert shown == whole
    for changes in ({"golden": 1}, {"last": 1}, {"keeps_probabilities": 1}):
        frame = _vp8_inter_frame(**changes)
        assert sample_facts(made.info, frame).disposable is False
    assert {pts: digest for pts, digest in with_frame(_vp8_inter_frame(last=1)).items() if pts != 500} != whole


def test_not_coded_and_packed_planes_of_mpeg4_are_told():
    made = encode("mpeg4", frames=8, options={"bf": "1"})
    not_coded = b"\0\0\1\xb6" + bytes(
        (0b01_0_1_0000, 0b0_1_0_00000)
    )  # P, no whole seconds, time 00000 (5 bits), not coded
    fact = sample_facts(made.info, not_coded)
    assert (fact.has_picture, fact.shown) == (False, False)
    kinds = [sample_facts(made.info, packet.payload).picture_type for packet in made.packets]
    row = kinds.index("B")
    packed = sample_facts(made.info, made.packets[row - 1].payload + made.packets[row].payload)
    assert (packed.num_pictures, packed.disposable) == (2, False)


INFOS = {
    codec: StreamInfo(container="mp4", codec=codec, codec_config=config, nal_length_size=length)
    for codec in ["h264", "hevc", "vvc", *READERS]
    for config, length in [(b"", 0), (b"\1" * 30, 4)]
}


@given(st.sampled_from(sorted(INFOS)), st.binary(max_size=300), st.booleans())
def test_any_bytes_give_facts(codec, payload, complete):
    assert isinstance(sample_facts(INFOS[codec], payload, complete=complete), SampleFacts)


def test_a_codec_that_is_not_understood_gives_nothing():
    info = StreamInfo(container="avi", codec="cinepak")
    assert sample_facts(info, b"abc") == SampleFacts()
    assert not is_understood("cinepak")
    assert set(HEAD_BYTES) == {"h264", "hevc", "vvc", *READERS}


def test_only_the_highest_sub_layer_of_hevc_is_disposable():
    """A sub-layer non-reference picture may serve pictures of higher sub-layers (H.265 7.4.2.2)."""
    encoder, options, pix_fmt = CLIPS["x265_sub_layers"]
    made = encode(encoder, frames=16, options=options, pix_fmt=pix_fmt)
    row = next(row for row, fact in enumerate(_facts(made)) if fact.disposable)
    unit = next(unit for unit in nal_units(made.packets[row].payload, 0) if unit[0] >> 1 & 63 < 32)
    answers = [
        sample_facts(made.info, b"\0\0\1" + bytes((0, sub_layer + 1)) + unit[2:]).disposable for sub_layer in range(3)
    ]
    assert answers == [False, False, True]


@pytest.mark.parametrize(("code", "count"), [(0b1, 0), (0b00100, 3)])
def test_only_a_recovery_point_without_delay_is_key(code, count):
    encoder, options, pix_fmt = CLIPS["x264_open_gop"]
    made = encode(encoder, frames=36, options=options, pix_fmt=pix_fmt)
    row = [row for row, fact in enumerate(_facts(made)) if fact.key][1]
    unit = next(unit for unit in nal_units(made.packets[row].payload, 0) if unit[0] & 31 == 1)
    bits = code << (8 - code.bit_length() * 2 + 1) if count else 0b1100_0000
    sei = bytes((6, 6, 1, bits, 0x80))
    fact = sample_facts(made.info, b"\0\0\1" + sei + b"\0\0\1" + unit)
    assert (fact.recovery_frames, fact.key) == (count, count == 0)
    assert sample_facts(made.info, b"\0\0\1" + unit).key is False
