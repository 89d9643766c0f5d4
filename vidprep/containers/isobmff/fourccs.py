"""Sample entry types and object types → FFmpeg's codec names.

Sources: the MP4 Registration Authority's codec and object type lists, Apple's QuickTime File Format specification,
FFmpeg's `isom_tags.c` for the names.
"""

from __future__ import annotations

_BY_CODEC = {
    "h264": "avc1 avc2 avc3 avc4 dva1 dvav H264 h264 ai5p ai5q ai52 ai53 ai55 ai56 ai1p ai1q ai12 ai13 ai15 ai16 AVin",
    "hevc": "hvc1 hev1 dvh1 dvhe hvc2 hev2",
    "vvc": "vvc1 vvi1",
    "evc": "evc1",
    "av1": "av01 dav1",
    "vp8": "vp08 VP80",
    "vp9": "vp09 VP90",
    "mpeg4": "mp4v DIVX XVID 3IV2 DX50 FMP4 divx xvid",
    "h263": "h263 s263 H263 U263",
    "h261": "h261 H261",
    "mpeg1video": "m1v1 m1v  mpeg mp1v",
    "mpeg2video": (
        "m2v1 mp2v mpg2 hdv1 hdv2 hdv3 hdv4 hdv5 hdv6 hdv7 hdv8 hdv9 hdva mx5n mx5p mx4n mx4p mx3n mx3p "
        "xd54 xd55 xd59 xd5a xd5b xd5c xd5d xd5e xd5f xdv1 xdv2 xdv3 xdv4 xdv5 xdv6 xdv7 xdv8 xdv9 xdva xdvb "
        "xdvc xdvd xdve xdvf xdhd xdh2 AVmp"
    ),
    "mjpeg": "jpeg mjpa AVDJ AVRn dmb1 MJPG mjpg",
    "mjpegb": "mjpb",
    "jpeg2000": "mjp2 MJ2C",
    "jpegxs": "jxsm",
    "prores": "apch apcn apcs apco ap4h ap4x",
    "prores_raw": "aprn aprh",
    "dnxhd": "AVdn AVdh",
    "dvvideo": "dvc  dvcp dvpp dv5p dv5n AVdv AVd1 dvhq dvhp dvh2 dvh3 dvh4 dvh5 dvh6 dv1n dv1p CDVC cdvc",
    "cfhd": "CFHD",
    "hap": "Hap1 Hap5 HapY HapA HapM Hap7",
    "dxv": "DXDI DXD3",
    "aic": "icod",
    "svq1": "SVQ1 svq1 svqi",
    "svq3": "SVQ3",
    "qtrle": "rle ",
    "msrle": "WRLE",
    "rpza": "rpza azpr",
    "smc": "smc ",
    "cinepak": "cvid",
    "8bps": "8BPS",
    "qdraw": "qdrw",
    "indeo3": "IV31 IV32 iv32",
    "indeo5": "IV50",
    "vp3": "VP30 VP31",
    "vp6f": "VP6F",
    "flv1": "FLV1",
    "msmpeg4v2": "MP42 DIV2",
    "msmpeg4v3": "3IVD DIV3 MP43",
    "vc1": "vc-1 WVC1",
    "dirac": "drac",
    "ffv1": "FFV1",
    "png": "png  MPNG",
    "gif": "gif ",
    "tiff": "tiff",
    "targa": "tga ",
    "bmp": "WRAW",
    "rawvideo": "raw  yuv2 2vuy yuvs L555 L565 B565 24BG BGRA RGBA ABGR b16g b48r b64a bxbg bxrg bxyv NO16 DVOO R420 "
    "R411 R10k",
    "r210": "r210",
    "r10k": "R10g",
    "v210": "v210",
    "v308": "v308",
    "v408": "v408",
    "v410": "v410",
    "y41p": "Y41P",
    "yuv4": "yuv4",
    "avui": "AVUI",
    "magicyuv": "M8RG M8RA M8G0 M8Y0 M8Y2 M8Y4 M8YA M0RG M0RA M0G0 M0Y2",
    "utvideo": "ULRG ULRA ULY0 ULY2 ULY4 ULH0 ULH2 ULH4",
    "huffyuv": "HFYU",
    "zmbv": "ZMBV",
    "flashsv": "FSV1",
    "apv": "apv1",
    "flic": "FLIC flic",
}


def _split(tags: str) -> list[bytes]:
    """Four characters each, one apart; the tags themselves may end in a blank."""
    return [tags[i : i + 4].ljust(4).encode() for i in range(0, len(tags), 5)]


#: Sample entry type → codec.
CODEC_BY_FOURCC: dict[bytes, str] = {tag: codec for codec, tags in _BY_CODEC.items() for tag in _split(tags)}

#: Sample entries whose samples are encrypted (ISO/IEC 14496-12 8.12, and Apple's FairPlay).
ENCRYPTED_FOURCCS = frozenset({b"encv", b"drmi"})

#: objectTypeIndication of an elementary stream descriptor (ISO/IEC 14496-1 Table 5, MP4RA) → codec.
CODEC_BY_OBJECT_TYPE: dict[int, str] = {
    0x20: "mpeg4",
    0x21: "h264",
    0x23: "hevc",
    0x33: "vvc",
    **dict.fromkeys(range(0x60, 0x66), "mpeg2video"),
    0x6A: "mpeg1video",
    0x6C: "mjpeg",
    0x6D: "png",
    0x6E: "jpeg2000",
    0xA3: "vc1",
    0xA4: "dirac",
    0xB1: "vp9",
}

#: Codecs of whose samples NAL units with length prefixes are made.
NAL_CODECS = frozenset({"h264", "hevc", "vvc", "evc"})

#: `ftyp` major brand (first three characters suffice) → container name.
CONTAINER_BY_BRAND: dict[bytes, str] = {
    b"qt ": "mov",
    b"3gp": "3gp",
    b"3gg": "3gp",
    b"3gr": "3gp",
    b"3gs": "3gp",
    b"3g2": "3g2",
    b"M4V": "m4v",
    b"f4v": "f4v",
    b"F4V": "f4v",
    b"avi": "avif",
    b"crx": "cr3",
}
