"""Decode engines: a cut in, its wanted frames out. All give the same frames and the same errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from vidprep.loaders.cut import Cut


class Engine(Protocol):
    """Decodes cuts; may be shared by several threads; holds bounded state; `close` frees it."""

    name: str

    def decode(self, cut: Cut) -> Any:
        """RGB uint8 (len(cut.frames), H, W, 3): numpy on the CPU, a torch CUDA tensor on a GPU.

        Raises:
            DecodeError: a wanted frame is missing, damaged, or of another size; names video and frame.
        """

    def close(self) -> None:
        """Free decoders and memory."""
