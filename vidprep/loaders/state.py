"""Where a loader is, as plain JSON that fits any number of ranks."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from vidprep.errors import ArgumentError, SamplingError

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_VERSION = 1

#: Differences between a state and a loader that `allow` can name.
DIFFERENCES = frozenset({"index", "batch_size"})


def to_state(*, epoch: int, position: int, batch_size: int, fingerprint: str, num_positions: int) -> dict[str, Any]:
    """The state as JSON values."""
    return {
        "version": STATE_VERSION,
        "epoch": epoch,
        "position": position,
        "batch_size": batch_size,
        "fingerprint": fingerprint,
        "num_positions": num_positions,
    }


def checked_state(
    state: Mapping[str, Any], *, batch_size: int, fingerprint: str, num_positions: int, allow: frozenset[str]
) -> tuple[int, int]:
    """(epoch, position) of a state that fits this loader.

    Args:
        state: what `to_state` gave.
        batch_size: this loader's.
        fingerprint: this loader's, of index, policy and seed.
        num_positions: of this loader's plan.
        allow: differences that are accepted: "index", "batch_size".

    Raises:
        ArgumentError: `allow` names what there is not.
        SamplingError: the state is of another plan, or of another batch size in mid-epoch, or no state at all.
    """
    if not allow <= DIFFERENCES:
        raise ArgumentError(f"allow={sorted(allow)} goes beyond {sorted(DIFFERENCES)}")
    try:
        version, epoch, position, saved_size = (
            operator.index(state[name]) for name in ("version", "epoch", "position", "batch_size")
        )
        saved_print = str(state["fingerprint"])
    except (KeyError, TypeError, ValueError) as error:
        raise SamplingError(f"not a loader state: {error!r}") from error
    if version != STATE_VERSION:
        raise SamplingError(f"the state has version {version}, this code reads {STATE_VERSION}")
    if saved_print != fingerprint and "index" not in allow:
        raise SamplingError(
            f"the state is of another index or plan (fingerprint {saved_print}, here {fingerprint}); its places name "
            'other clips. Pass allow={"index"} to go on regardless'
        )
    if position and saved_size != batch_size and "batch_size" not in allow:
        raise SamplingError(
            f"the state was saved in mid-epoch with batch_size {saved_size}, here it is {batch_size}; "
            'pass allow={"batch_size"} to go on with other batches'
        )
    if not 0 <= position <= num_positions or epoch < 0:
        raise SamplingError(f"epoch {epoch}, place {position} of {num_positions} does not exist")
    return epoch, position
