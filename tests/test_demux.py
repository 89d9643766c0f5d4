"""The demux path: AVI, MPEG-TS and -PS, FLV, Ogg, ASF, MXF, elementary streams, against known values and PyAV."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isobmff_files import Movie, visual_entry
from PIL import Image

from vidprep.containers import demux, parse_container
from vidprep.containers.demux.packets import _bounded
from vidprep.containers.demux.times import MISSING, fill_missing, regular_times, unwrap_clock
from vidprep.containers.not_media import not_media
from vidprep.errors import ContainerError, LimitError, MediaError, NotMediaError, Reason, SourceError

if TYPE_CHECKING:
    from vidprep.records import ParsedVideo

CASES = Path(__file__).parent / "cases"
DEMUX_CASES = sorted(path.stem for path in (CASES / "files").iterdir() if path.suffix in (".avi", ".ts", ".mpg"))
EBML = b"\x1a\x45\xdf\xa3"
BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"sidx", b"moof")


def reader(data: bytes):
    return lambda offset, size: data[offset : offset + size]


def parse(data: bytes) -> ParsedVideo:
    return parse_container(reader(data), len(data))


def encode(
    codec: str, container: str, *, frames: int = 24, size: tuple[int, int] = (160, 144), **options: str
) -> bytes:
    """A short moving pattern at 25 frames per second, written by PyAV."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=25, options=options)
        stream.codec_context.thread_count = 1  # libvpx with threads may hang on a busy machine
        stream.width, stream.height = size
        stream.pix_fmt = "rgb24" if codec == "png" else "yuv420p"
        ramp = np.add.outer(np.arange(size[1]), np.arange(size[0])).astype(np.uint8)
        for index in range(frames):
            picture = np.repeat(np.roll(ramp, index * 5, axis=1)[:, :, None], 3, axis=2)
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(stream.encode())
    return file.getvalue()


def decoded_rows(data: bytes) -> list[int]:
    """Rows in the order in which a decoder gives them, by an independent pass over the packets."""
    rows: list[int] = []
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        for row, packet in enumerate(container.demux(stream)):
            packet.pts, packet.dts = (row, None) if packet.size else (None, None)
            rows += [frame.pts for frame in packet.decode()]
    return rows


# Cases and real files


@pytest.mark.parametrize("name", DEMUX_CASES)
def test_cases_have_their_frames_and_times(cases: Path, name: str) -> None:
    expected = json.loads((cases / "expected" / f"{name}.json").read_text())
    parsed = parse((cases / expected["file"]).read_bytes())
    assert parsed.method == "demux"
    assert parsed.table.num_frames == expected["displayable_frames"]
    assert parsed.info.time_base == Fraction(expected["time_base"])
    pts = parsed.table.frame_pts
    offset = int(pts[0]) if expected.get("pts_offset_free") else 0
    assert (pts - offset).tolist() == expected["pts_ticks"]
    if expected["key_indices"] is not None:
        assert parsed.table.keyframes.tolist() == expected["key_indices"]


def other_files(corpus: Path) -> list[Path]:
    def is_other(head: bytes) -> bool:
        return head[:4] != EBML and head[4:8] not in BOXES

    return [path for path in sorted((corpus / "files").iterdir()) if is_other(path.read_bytes()[:8])]


def test_real_files_have_ffmpegs_packets_and_frames(corpus: Path) -> None:
    for path in other_files(corpus):
        truth = json.loads((corpus / "truth" / f"{path.name}.json").read_text())
        data = path.read_bytes()
        if not truth.get("frames"):
            with pytest.raises(ContainerError):
                parse(data)
            continue
        parsed = parse(data)
        packets = [(size, key) for _, _, _, size, key, *_ in truth["packets"] if size]
        assert parsed.table.size.tolist() == [size for size, _ in packets], path.name
        if not parsed.keys_verified:  # then the samples' own heads decide, not the container's flags
            keys = [key for _, key in packets]
            if parsed.info.codec == "dirac":  # its later ones are no starts: see the test of Dirac below
                keys[1:] = [False] * (len(keys) - 1)
            assert (parsed.table.flags & 1).tolist() == keys, path.name
        # low-delay MPEG-4 whose header lies: FFmpeg gives one of its four pictures twice
        assert parsed.table.num_frames == min(len(truth["frames"]), len(packets)), path.name
        assert bool(np.all(np.diff(parsed.table.frame_pts) >= 0)), path.name


def test_real_files_with_times_keep_them(corpus: Path) -> None:
    for path in other_files(corpus):
        truth = json.loads((corpus / "truth" / f"{path.name}.json").read_text())
        times = [frame[0] for frame in truth.get("frames") or []]
        if not times or None in times:
            continue
        parsed = parse(path.read_bytes())
        if parsed.info.container in ("mpegts", "mpegps", "flv", "ogg", "asf", "mxf", "rm", "ivf", "y4m"):
            assert parsed.table.frame_pts.tolist() == times, path.name


def test_rows_are_the_packets_and_ranges_hold_their_bytes(corpus: Path, cases: Path) -> None:
    files = [*other_files(corpus), *(path for path in (cases / "files").iterdir() if path.stem in DEMUX_CASES)]
    access = set()
    for path in files:
        data = path.read_bytes()
        try:
            parsed = parse(data)
        except ContainerError:
            continue
        packets = list(demux.iter_packets(reader(data), len(data)))
        table = parsed.table
        assert [len(packet.data) for packet in packets] == table.size.tolist()
        if parsed.access == "ranges":
            ranges = zip(table.offset.tolist(), table.size.tolist(), strict=True)
            assert [data[o : o + s] for o, s in ranges] == [packet.data for packet in packets], path.name
        access.add((parsed.info.container, parsed.access))
    assert {("avi", "ranges"), ("flv", "ranges"), ("ivf", "ranges"), ("mxf", "ranges")} <= access
    assert {("mpegts", "demux"), ("mpegps", "demux"), ("ogg", "demux")} <= access


# Order and times where the container has none


@pytest.mark.parametrize(
    ("codec", "container", "options"),
    [
        ("libx264", "h264", {"bf": "3", "x264-params": "b-pyramid=normal:keyint=12"}),
        ("libx265", "hevc", {"x265-params": "bframes=3:keyint=12:log-level=none"}),
        ("mpeg4", "m4v", {"bf": "2"}),
        ("mpeg2video", "mpeg2video", {"bf": "2", "g": "12"}),
        ("mpeg1video", "mpeg1video", {"g": "6"}),
        ("mjpeg", "mjpeg", {"strict": "unofficial"}),
    ],
)
def test_elementary_streams_are_shown_in_the_decoders_order(
    codec: str, container: str, options: dict[str, str]
) -> None:
    data = encode(codec, container, **options)
    parsed = parse(data)
    assert parsed.table.frame_rows.tolist() == decoded_rows(data)
    assert parsed.table.num_frames == 24
    assert parsed.timing.vfr_class == "cfr"
    assert parsed.timeline.pts_seconds[0] == 0
    assert parsed.timeline.pts_seconds[-1] == pytest.approx(23 / 25)
    assert parsed.access == "ranges"


def test_avi_with_b_frames_is_shown_in_the_decoders_order() -> None:
    data = encode("mpeg4", "avi", bf="2")
    parsed = parse(data)
    assert parsed.table.frame_rows.tolist() == decoded_rows(data)
    assert parsed.table.frame_pts.tolist() == list(range(24))


def pack_b_frames(data: bytes) -> bytes:
    """AVI with packed B-frames: each P-VOP's chunk holds the B-VOP after it too, whose own chunk becomes an N-VOP."""
    with av.open(io.BytesIO(data)) as source:
        stream = source.streams.video[0]
        vops = [bytes(packet) for packet in source.demux(stream) if packet.size]
        kinds = [vop[vop.index(b"\x00\x00\x01\xb6") + 4] >> 6 for vop in vops]
        marker = b"\x00\x00\x01\xb2DivX503b1393p"
        empty = b"\x00\x00\x01\xb6\x50"  # P-VOP of the time before with vop_coded 0
        file = io.BytesIO()
        with av.open(file, "w", format="avi") as output:
            copy = output.add_stream_from_template(stream)
            for slot, chunk in enumerate(_packed(vops, kinds, marker, empty)):
                packet = av.Packet(chunk)
                packet.stream, packet.pts, packet.dts, packet.time_base = copy, slot, slot, Fraction(1, 25)
                packet.is_keyframe = slot == 0
                output.mux(packet)
    return file.getvalue()


def _packed(vops: list[bytes], kinds: list[int], marker: bytes, empty: bytes) -> list[bytes]:
    chunks: list[bytes] = []
    for row, vop in enumerate(vops):
        head = marker if row == 0 else b""
        if kinds[row] == 2:
            chunks.append(empty)
        else:
            packed = vops[row + 1] if row + 1 < len(vops) and kinds[row + 1] == 2 else b""
            chunks.append(head + vop + packed)
    return chunks


def riff_chunks(data: bytes, start: int, end: int) -> list[bytes]:
    found = []
    while start + 8 <= end:
        size = 8 + int.from_bytes(data[start + 4 : start + 8], "little")
        found.append(data[start : start + size + size % 2])
        start += size + size % 2
    return found


def test_frames_of_every_riff_part_of_a_large_avi_are_found() -> None:
    """OpenDML: what does not fit into the first RIFF follows in others of type AVIX."""

    def part(kind: bytes, name: bytes, *parts: bytes) -> bytes:
        body = name + b"".join(parts)
        return kind + len(body).to_bytes(4, "little") + body

    whole = (CASES / "files" / "avi_header_lie.avi").read_bytes()
    headers, movie, *_ = riff_chunks(whole, 12, len(whole))
    frames = riff_chunks(movie, 12, len(movie))
    first, second, third = frames[:10], frames[10:17], frames[17:]
    parts = [part(b"LIST", b"movi", *each) for each in (first, second, third)]
    data = part(b"RIFF", b"AVI ", headers, parts[0]) + b"".join(part(b"RIFF", b"AVIX", each) for each in parts[1:])
    got = parse(data).table
    assert got.num_frames == len(frames) == 30
    assert [data[o : o + s] for o, s in zip(got.offset.tolist(), got.size.tolist(), strict=True)] == [
        frame[8 : 8 + int.from_bytes(frame[4:8], "little")] for frame in frames
    ]


def test_packed_b_frames_are_taken_apart() -> None:
    plain = encode("mpeg4", "avi", frames=25, bf="1", g="50")
    data = pack_b_frames(plain)
    parsed = parse(data)
    packets = list(demux.iter_packets(reader(data), len(data)))
    assert parsed.access == "demux"
    assert parsed.table.num_frames == 25
    assert [len(packet.data) for packet in packets] == parsed.table.size.tolist()
    assert parsed.table.frame_pts.tolist() == list(range(25))


@pytest.mark.parametrize("container", ["mpegts", "mpeg", "flv", "mxf", "nut", "asf"])
def test_containers_with_times_agree_with_pyav(container: str) -> None:
    codec = "mpeg2video" if container in ("mpeg", "mxf") else "flv" if container == "flv" else "mpeg4"
    data = encode(codec, container, **({"bf": "2"} if codec != "flv" else {}))
    parsed = parse(data)
    with av.open(io.BytesIO(data)) as source:
        times = [frame.pts for frame in source.decode(video=0)]
    assert parsed.table.frame_pts.tolist() == times


def test_a_stream_that_starts_between_key_frames_shows_what_a_decoder_gives() -> None:
    data = encode("libx264", "mpegts", frames=48, **{"x264-params": "keyint=12:min-keyint=12:scenecut=0:bframes=2"})
    cut = len(data) // 188 // 8 * 188
    packets = data[:564] + data[cut:]  # service, program and map tables, then from the middle of a group
    parsed = parse(packets)
    with av.open(io.BytesIO(packets)) as source:
        times = [frame.pts for frame in source.decode(video=0)]
    assert 0 < parsed.table.num_frames < len(parsed.table)
    assert parsed.table.frame_pts.tolist() == times


def test_joined_transport_streams_stay_one_after_the_other() -> None:
    part = encode("libx264", "mpegts", frames=24, **{"x264-params": "keyint=12:bframes=2"})
    parsed = parse(part + part)
    alone = parse(part).table
    assert parsed.table.num_frames == 2 * alone.num_frames
    assert parsed.table.frame_rows.tolist() == decoded_rows(part + part)


def test_streams_that_come_up_on_the_way_are_none_of_the_first_ones_business() -> None:
    """A programme of 30 streams in the middle, where FFmpeg does not look when it opens the file."""
    part, idle = encode("mpeg2video", "mpegts"), (b"\x47\x1f\xff\x10" + b"\xff" * 184) * 3000
    others = io.BytesIO()
    with av.open(others, "w", format="mpegts") as output:
        streams = [output.add_stream("mpeg2video", rate=25) for _ in range(30)]
        for stream in streams:
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for stream in streams:
            output.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
            output.mux(stream.encode())
    alone = parse(part).table
    parsed = parse(part + idle + others.getvalue() + idle + part)
    assert parsed.table.num_frames >= alone.num_frames
    assert parsed.table.size[: len(alone)].tolist() == alone.size.tolist()


# Arithmetic of times


def test_regular_times_keep_the_holes_of_null_chunks() -> None:
    slots = np.array([0, 1, 4, 5, 6])
    assert regular_times(slots, np.array([0, 2, 1, 3, 4])).tolist() == [0, 4, 1, 5, 6]


def test_a_33_bit_clock_goes_on() -> None:
    clock = np.array([0, 3600, 7200, 10_800, 14_400]) + (1 << 33) - 5000
    wrapped = clock % (1 << 33)
    assert unwrap_clock(wrapped, wrapped).tolist() == clock.tolist()
    assert unwrap_clock(clock[:2], clock[:2]).tolist() == clock[:2].tolist()


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=40), st.integers(0, (1 << 33) - 1))
def test_unwrapping_gives_back_any_rising_clock(steps: list[int], start: int) -> None:
    clock = start + np.cumsum(np.array(steps, np.int64))
    wrapped = clock % (1 << 33)
    found = unwrap_clock(wrapped, wrapped)
    assert (found - found[0]).tolist() == (clock - clock[0]).tolist()


def test_missing_times_follow_the_frame_before() -> None:
    pts = np.array([MISSING, 100, MISSING, 130, MISSING])
    assert fill_missing(pts, np.array([0, 1, 2, 3, 4]), 10).tolist() == [90, 100, 110, 130, 140]
    assert fill_missing(np.full(3, MISSING), np.array([0, 2, 1]), 10).tolist() == [0, 20, 10]


# What is refused


@pytest.mark.parametrize(
    "data",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n",
        b"<!DOCTYPE html><html></html>",
        b"\xef\xbb\xbf1\n00:00:01,000 --> 00:00:02,000\nHello\n",
        b"#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:10,\nfile:///etc/passwd\n",
        b"ffconcat version 1.0\nfile '/etc/passwd'\n",
        b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nm=video 5004 RTP/AVP 96\r\n",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        bytes(5000),
    ],
    ids=["lfs", "html", "subtitles", "hls", "concat", "sdp", "png", "zeros"],
)
def test_what_is_no_video_is_not_media(data: bytes) -> None:
    with pytest.raises(ContainerError) as caught:
        parse(data)
    assert caught.value.reason == Reason.NOT_MEDIA


def test_the_demuxer_itself_opens_no_playlist(tmp_path: Path) -> None:
    inner = tmp_path / "inner.avi"
    inner.write_bytes(encode("mpeg4", "avi", frames=3))
    listed = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{inner}\n#EXT-X-ENDLIST\n".encode()
    with pytest.raises(ContainerError):
        demux.parse(reader(listed), len(listed))


def test_the_demuxer_itself_opens_no_single_picture() -> None:
    picture = encode("png", "image2pipe", frames=1)
    assert picture.startswith(b"\x89PNG")
    with pytest.raises(ContainerError) as caught:
        demux.parse(reader(picture), len(picture))
    assert caught.value.reason == Reason.NOT_MEDIA


def jpeg_pictures(count: int, side: int = 64, **options: Any) -> list[bytes]:
    """Noise, so that large ones are larger than what FFmpeg looks at to tell a film from a picture."""
    noise = np.random.default_rng(0)
    pictures = []
    for _ in range(count):
        written = io.BytesIO()
        Image.fromarray(noise.integers(0, 256, (side, side, 3), np.uint8)).save(written, "JPEG", **options)
        pictures.append(written.getvalue())
    return pictures


def _with_exif() -> dict[str, Any]:
    exif = Image.Exif()
    exif[0x0112] = 1
    return {"exif": exif}


@pytest.mark.parametrize("side", [64, 1400])
@pytest.mark.parametrize("options", [{}, _with_exif()], ids=["jfif", "exif"])
def test_a_row_of_jpeg_pictures_is_a_film_and_one_is_none(side: int, options: dict[str, Any]) -> None:
    pictures = jpeg_pictures(4, side, **options)
    data = b"".join(pictures)
    parsed = parse(data)
    assert parsed.table.size.tolist() == [len(picture) for picture in pictures]
    assert (parsed.table.num_frames, parsed.info.codec, parsed.access) == (4, "mjpeg", "ranges")
    assert [packet.data for packet in demux.iter_packets(reader(data), len(data))] == pictures
    with pytest.raises(NotMediaError, match="a single picture"):
        parse(pictures[0])


def test_a_jpeg_picture_with_its_preview_behind_it_is_no_film() -> None:
    picture, preview = jpeg_pictures(2)
    index = b"\xff\xe2\x00\x08MPF\0\0\0"
    assert parse(picture + preview).table.num_frames == 2
    with pytest.raises(NotMediaError, match="a single picture"):
        parse(picture[:2] + index + picture[2:] + preview)


def test_text_headers_of_video_are_no_text() -> None:
    assert not_media(b"YUV4MPEG2 W80 H80 F20:1") is None
    assert not_media(b"RIFF\x00\x00\x00\x00AVI LIST") is None
    assert not_media(b"plain words only") == "plain text"


def test_a_file_read_over_and_over_ends() -> None:
    data = encode("mpeg4", "avi", frames=3)
    bounded = _bounded(reader(data), 10)
    assert bounded(0, 1 << 20) == data
    with pytest.raises(LimitError):
        [bounded(0, 1 << 20) for _ in range(64)]


def test_beyond_the_budget_times_are_believed_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidprep.containers.demux.pictures._BASE_PIXELS", 0)
    monkeypatch.setattr("vidprep.containers.demux.pictures._PIXELS_PER_BYTE", 1)
    data = encode("libx264", "mpegts", **{"x264-params": "bframes=2"})
    parsed = parse(data)
    assert parsed.table.num_frames == 24
    assert parsed.table.frame_rows.tolist() == decoded_rows(data)
    assert Reason.TIMEOUT in {finding.reason for finding in parsed.warnings}
    with pytest.raises(LimitError):
        parse(encode("libx264", "h264", **{"x264-params": "bframes=2"}))


def test_audio_only_has_no_video_stream(corpus: Path) -> None:
    with pytest.raises(ContainerError) as caught:
        parse((corpus / "files" / "pymediainfo__issue55.flv").read_bytes())
    assert caught.value.reason == Reason.NO_VIDEO_STREAM


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=400))
def test_any_bytes_give_a_table_or_an_error(data: bytes) -> None:
    for head in (b"", b"RIFF\x00\x10\x00\x00AVI LIST", b"FLV\x01\x01\x00\x00\x00\x09", b"\x00\x00\x01\xba", b"DKIF"):
        try:
            assert len(parse(head + data).table) > 0
        except MediaError:
            continue


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DEMUX_CASES), st.data())
def test_mutated_files_give_a_table_or_an_error(name: str, draw: st.DataObject) -> None:
    path = next((CASES / "files").glob(f"{name}.*"))
    data = bytearray(path.read_bytes())
    for _ in range(draw.draw(st.integers(1, 6))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        parsed = parse(bytes(data))
    except MediaError:
        return
    assert 0 < parsed.table.num_frames <= len(parsed.table)


def test_dirac_starts_only_where_its_encoder_names_itself(corpus: Path) -> None:
    """FFmpeg decodes by that name: begun at a key frame without it, pictures are other than in sequence."""
    path = corpus / "files" / "debian-thunderbird-gecko__dirac.ogg"
    data = path.read_bytes()
    assert parse_container(reader(data), len(data)).table.keyframes.tolist() == [0]
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        keys = [row for row, packet in enumerate(packets) if packet.is_keyframe]
    with av.open(str(path)) as container:
        want = [frame.to_ndarray() for frame in container.decode(video=0)]
    assert keys == [0, 58]
    samples = [bytes(packet) for packet in packets]
    movie = Movie(
        sizes=[len(sample) for sample in samples], stss=[row + 1 for row in keys], entries=[visual_entry(b"drac")]
    )
    as_mp4 = movie.file()[: movie.first()] + b"".join(samples)
    assert parse_container(reader(as_mp4), len(as_mp4)).table.key_rows.tolist() == [0]
    unnamed = as_mp4.replace(b"BBCD\x20", b"BBCD\x30")
    assert parse_container(reader(unnamed), len(unnamed)).table.key_rows.tolist() == keys
    auxiliary = bytes(packets[0])[31:63]
    assert b"Schroedinger" in auxiliary
    for unit, is_right in ((b"", False), (auxiliary, True)):
        first, *rest = (bytes(packet) for packet in packets[58:])
        assert np.array_equal(_first_dirac_picture([first[:31] + unit + first[31:], *rest]), want[58]) == is_right


def _first_dirac_picture(samples: list[bytes]) -> np.ndarray:
    decoder = av.CodecContext.create("dirac", "r")
    for place, sample in enumerate(samples):
        packet = av.Packet(sample)
        packet.pts = packet.dts = place
        for frame in decoder.decode(packet):
            return frame.to_ndarray()
    raise AssertionError("no picture")


@pytest.mark.parametrize("readable", [0.2, 0.5, 0.8])
def test_an_error_of_the_source_is_raised_once_and_nothing_is_printed(
    cases: Path, readable: float, capfd: pytest.CaptureFixture[str]
) -> None:
    """FFmpeg reads on behind an error; PyAV prints each further one."""
    data = (cases / "files" / "mpeg_ps_open_gop.mpg").read_bytes() * 40
    last = int(readable * len(data))

    def read_at(offset: int, size: int) -> bytes:
        if offset + size > last:
            raise SourceError("gone", offset=offset)
        return data[offset : offset + size]

    with pytest.raises(SourceError, match="gone"):
        list(demux.iter_packets(read_at, len(data)))
    assert capfd.readouterr().err == ""
