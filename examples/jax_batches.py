"""Batches as JAX arrays, by DLPack, without a copy; by way of numpy where JAX is not installed.

python examples/jax_batches.py INDEX
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np

from vidprep.indexes import open_index
from vidprep.loaders import ClipLoader
from vidprep.samplers import Plan, Uniform


def main(path: str) -> None:
    if importlib.util.find_spec("jax") is None:
        print("jax is not installed; numpy takes the same DLPack objects")
        from_dlpack = np.from_dlpack
    else:
        import jax

        from_dlpack = jax.dlpack.from_dlpack
    plan = Plan(open_index(path).where(status="ok"), Uniform(frames=8), seed=7)
    with ClipLoader(plan, batch_size=2, size=(64, 64), output="dlpack") as loader:
        for batch in loader:
            frames = from_dlpack(batch.frames)  # alive as long as `batch.frames` or this array is
            print(type(frames).__module__, frames.shape, frames.dtype, float(frames.mean()))


if __name__ == "__main__":
    main(sys.argv[1])
