"""A decoder's set-up as bytes that may stand before a sample: how a stream changes it in mid-way."""

from __future__ import annotations

from vidprep.containers.nal_units import avcc_units, hvcc_units, is_annex_b

#: Codecs whose samples say all that a decoder needs.
_SELF_CONTAINED = frozenset({"vp8", "vp9", "mjpeg", "prores", "dnxhd", "h263"})
#: Codecs whose configuration is a piece of their elementary stream.
_HEADERS = frozenset({"mpeg4", "mpeg1video", "mpeg2video"})
_UNITS = {"h264": avcc_units, "hevc": hvcc_units}


def in_band(codec: str, config: bytes, nal_length_size: int) -> bytes | None:
    """What to put before a sample for a decoder that was set up otherwise; None where nothing helps.

    Args:
        codec: FFmpeg's name.
        config: extradata as FFmpeg has it.
        nal_length_size: bytes of the samples' length prefixes; 0 = start codes.
    """
    if codec in _SELF_CONTAINED:
        return b""
    if codec in _HEADERS or (codec in _UNITS and is_annex_b(config) and not nal_length_size):
        return config
    if codec == "av1":
        return config[4:] if config[:1] == b"\x81" else config
    if codec in _UNITS and nal_length_size and not is_annex_b(config):
        units = list(_UNITS[codec](config))
        fits = all(len(unit) < 1 << 8 * nal_length_size for unit in units)
        return b"".join(len(unit).to_bytes(nal_length_size, "big") + unit for unit in units) if fits else None
    return None
