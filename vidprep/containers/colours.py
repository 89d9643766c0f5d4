"""Names of the code points of ITU-T H.273 (also ISO/IEC 23091-2), which H.264 to AV1, MP4 and Matroska share.

Names are FFmpeg's, but for matrices that differ in name only: 5 and 6 are both "bt601", 0 is "rgb", 9 "bt2020".
Unspecified (2) and reserved values have no name.
"""

MATRIX: dict[int, str] = {
    0: "rgb",
    1: "bt709",
    4: "fcc",
    5: "bt601",
    6: "bt601",
    7: "smpte240m",
    8: "ycgco",
    9: "bt2020",
    10: "bt2020c",
    11: "smpte2085",
    12: "chroma-derived-nc",
    13: "chroma-derived-c",
    14: "ictcp",
    15: "ipt-c2",
    16: "ycgco-re",
    17: "ycgco-ro",
}

PRIMARIES: dict[int, str] = {
    1: "bt709",
    4: "bt470m",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    8: "film",
    9: "bt2020",
    10: "smpte428",
    11: "smpte431",
    12: "smpte432",
    22: "ebu3213",
}

TRANSFER: dict[int, str] = {
    1: "bt709",
    4: "gamma22",
    5: "gamma28",
    6: "smpte170m",
    7: "smpte240m",
    8: "linear",
    9: "log100",
    10: "log316",
    11: "iec61966-2-4",
    12: "bt1361e",
    13: "iec61966-2-1",
    14: "bt2020-10",
    15: "bt2020-12",
    16: "smpte2084",
    17: "smpte428",
    18: "arib-std-b67",
}

#: video_full_range_flag
RANGE: dict[int, str] = {0: "limited", 1: "full"}
