"""The unit of work on a Ray cluster: each is one task, and each task reads its files in a worker process of its node.

Ray schedules, and submits the units of a lost node again. The parts must lie where every node can write them: a shared
file system, or the one machine of a local cluster. The process that started the run publishes them, as it does locally.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vidprep.errors import LimitError, MissingDependencyError
from vidprep.indexes.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Units in flight for each CPU of the cluster: one in work, one that waits for it.
_UNITS_PER_CPU = 2
#: Without end, but for nodes that are lost again and again.
_MAX_RETRIES = 10


@contextmanager
def connected() -> Iterator[Any]:
    """Ray, connected to the cluster that RAY_ADDRESS names, or to one started here. Raises MissingDependencyError."""
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError("ray", "ray") from error
    ours = not ray.is_initialized()
    if ours:
        ray.init(address=os.environ.get("RAY_ADDRESS"), include_dashboard=False, log_to_driver=False)
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def map_units(tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """(task, outcome) of all tasks, as they are done.

    Args:
        tasks: `vidprep.indexes.worker.Task`s.

    Raises:
        MissingDependencyError: Ray is not installed.
        LimitError: a unit was lost more than ten times.
    """
    with connected() as ray:
        unit = ray.remote(num_cpus=1, max_retries=_MAX_RETRIES)(_do)
        waiting = iter(tasks)
        running: dict[Any, Any] = {}
        most = max(int(ray.cluster_resources().get("CPU", 1)), 1) * _UNITS_PER_CPU
        while True:
            while len(running) < most and (task := next(waiting, None)) is not None:
                running[unit.remote(task)] = task
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            for reference in done:
                try:
                    outcome = ray.get(reference)
                except ray.exceptions.RayError as error:
                    raise LimitError(f"a unit could not be done on the cluster: {error}") from error
                yield running.pop(reference), outcome


def _do(task: Any) -> Any:
    """One unit on a node: in a process with limits, so that a bad file costs its row here too.

    The part is written under a name of this attempt: a node that was thought lost may still be writing.
    """
    aside = f"{task.aside}.{os.uname().nodename}-{os.getpid()}"
    with Pool(1) as pool:
        ((_, outcome),) = pool.map([task._replace(aside=aside)])
    if outcome.problem is None:
        os.replace(aside, task.aside)  # noqa: PTH105 - one rename
    return outcome
