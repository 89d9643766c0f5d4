"""Peers' exact indices, their known bugs included: `compat="qwen"` and the like on a policy.

A rule belongs to a kind of policy and a peer: Uniform(8, compat="qwen") picks Qwen's frames. `RULES` lists what there is;
the formulas themselves, with the peers' own parameters, are in `libraries`, `recognition` and `models`. Rates and
durations are the peers' (`avg_fps` arithmetic, wrong on VFR as theirs is; on_vfr="raise" refuses). Random peers: the range
and the distribution are theirs, the numbers come from our streams. Where a peer fills places itself, `is_padding` is unset.
"""

from vidprep.samplers.compat.rules import PEERS, RULES, check_pair, count, places

__all__ = ["PEERS", "RULES", "check_pair", "count", "places"]
