"""ISO base media file format (ISO/IEC 14496-12, QuickTime): boxes, sample tables, edit lists and fragments."""

from vidprep.containers.isobmff.parse import parse, read_edit_list

__all__ = ["parse", "read_edit_list"]
