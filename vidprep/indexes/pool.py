"""Worker processes that may die or hang: either costs the file at fault, never the run.

Each is a fresh interpreter (no fork of the caller's threads, no re-import of the caller's script), takes one task at a
time over a socket, and says through a shared word which file it is reading.

A worker may also take several tasks at once, which it does in threads. When one of those dies or hangs, nobody knows
which file did it: what was in work is done again by a worker that takes one task at a time, which finds it.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Self

from vidprep.errors import LimitError, Reason
from vidprep.indexes.worker import AT_ONCE, BEAT_BYTES, IDLE, died, read_beat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

WORKER_MODULE = "vidprep.indexes.worker"

_POLL_SECONDS = 0.5
#: A worker ends a slow file itself; only code that does not let it is killed, this much later.
_GRACE_SECONDS = 5.0
#: Deaths of workers outside any file with no unit done between them, after which the run is given up.
_MAX_IDLE_DEATHS = 3
#: How a process ends that somebody else ended (the kernel, for want of memory; an operator): says little of the file.
_ENDED_BY_OTHERS = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP}


class Worker:
    """One process and what it is doing.

    Args:
        module: what it runs.
        tasks_at_once: that it does, in threads if they are more than one.
    """

    def __init__(self, module: str = WORKER_MODULE, tasks_at_once: int = 1) -> None:
        ours, theirs = socket.socketpair()
        beat_fd = os.memfd_create("vidprep-beat")
        try:
            os.truncate(beat_fd, BEAT_BYTES)
            self._beats = mmap.mmap(beat_fd, BEAT_BYTES)
            fds = (theirs.fileno(), beat_fd)
            command = [sys.executable, "-m", module, *map(str, (*fds, os.getpid(), tasks_at_once))]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                command, pass_fds=fds, env=environment, stdin=subprocess.DEVNULL
            )
        finally:
            theirs.close()
            os.close(beat_fd)
        self.connection = Connection(ours.detach())
        self.tasks_at_once = tasks_at_once
        self.tasks: dict[int, Any] = {}
        """unit → task, in work"""
        self.later: deque[Any] = deque()
        """tasks that wait for this worker alone"""
        self.suspects: frozenset[int] = frozenset()
        """places of its task at which a worker was ended by others: one more such end there is the file's doing"""
        self._killed = False

    def give(self, task: Any, suspects: frozenset[int] = frozenset()) -> None:
        """Start a task."""
        self.tasks[task.unit], self.suspects = task, suspects
        with suppress(BrokenPipeError, ConnectionResetError):  # it died idle; `take` will see
            self.connection.send(task)

    @property
    def has_room(self) -> bool:
        """It can be given a task; where it has threads, some wait for the next to be free."""
        return len(self.tasks) < self.tasks_at_once + self.tasks_at_once // 4

    def take(self) -> tuple[Any, Any] | None:
        """(task, outcome) of one that is done; None if it died instead."""
        try:
            outcome = self.connection.recv()
        except (EOFError, OSError):  # OSError: in the middle of an outcome
            return None
        return self.tasks.pop(outcome.unit), outcome

    def kill_if_stuck(self) -> None:
        """End it if its file is long over time."""
        position, since = read_beat(self._beats)
        task = next(iter(self.tasks.values()), None)
        if task is None or position == IDLE or since == 0:
            return
        if time.monotonic() - since > task.options.timeout_seconds + _GRACE_SECONDS:
            self._killed = True
            self._process.kill()

    def culprit(self) -> tuple[int, LimitError, bool]:
        """After its death: the place in its task that it was reading, that file's error, and its guilt.

        The place is IDLE if it read none, AT_ONCE if it was at several tasks.
        """
        status = self._process.wait()
        position, since = read_beat(self._beats)
        if since == 0:
            position = IDLE
        if self._killed:
            return position, LimitError("its time is up", reason=Reason.TIMEOUT), True
        return position, died(status), position in self.suspects or status not in _ENDED_BY_OTHERS

    def close(self) -> None:
        """End it."""
        self.connection.close()
        self._process.kill()
        self._process.wait()
        self._beats.close()


class Pool:
    """Maps tasks over worker processes; outcomes come as they are ready.

    Args:
        num_workers: processes.
        module: what each of them runs: a module whose main is `worker.main` with a `serve` of its own. Its tasks are
            named tuples with `unit`, `known` and `options.timeout_seconds`, as `Task` is one, its outcomes have `unit`.
        tasks_at_once: that each of them does in threads; then a task's own time limit is looked after by `serve`.
    """

    def __init__(self, num_workers: int, module: str = WORKER_MODULE, tasks_at_once: int = 1) -> None:
        self._module, self._tasks_at_once = module, tasks_at_once
        self._workers = [Worker(module, tasks_at_once) for _ in range(num_workers)]
        self._idle_deaths = 0

    def map(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """(task, outcome) of all tasks; takes no task before a worker is free for it, but for one ahead."""
        waiting = iter(tasks)
        ahead = next(waiting, None)
        while True:
            self._go_on(is_more=ahead is not None)
            while ahead is not None and (worker := self._free()) is not None:
                worker.give(ahead)
                ahead = next(waiting, None)
            busy = {worker.connection: worker for worker in self._workers if worker.tasks}
            if not busy:
                return
            for connection in wait(list(busy), _POLL_SECONDS):
                worker = busy[connection]  # type: ignore[index]  # only our connections were asked for
                done = worker.take()
                if done is None:
                    self._replace(worker)
                else:
                    self._idle_deaths = 0
                    yield done
            for worker in self._workers:
                worker.kill_if_stuck()

    def _free(self) -> Worker | None:
        """The one with the least to do."""
        free = [worker for worker in self._workers if worker.has_room and not worker.later]
        return min(free, key=lambda worker: len(worker.tasks), default=None)

    def _go_on(self, *, is_more: bool) -> None:
        """Give workers the tasks that wait for them; one that did the last of those makes room for one of threads."""
        for place, worker in enumerate(self._workers):
            while worker.later and worker.has_room:
                worker.give(worker.later.popleft())
            if is_more and not worker.tasks and worker.tasks_at_once < self._tasks_at_once:
                worker.close()
                self._workers[place] = Worker(self._module, self._tasks_at_once)

    def _replace(self, worker: Worker) -> None:
        """A new worker does the dead one's tasks again, without the file that killed it."""
        position, error, is_guilty = worker.culprit()
        suspects, (task, *others) = worker.suspects, worker.tasks.values()
        if position == IDLE:
            self._idle_deaths += 1
            if self._idle_deaths > _MAX_IDLE_DEATHS:
                raise error
        elif position == AT_ONCE:
            suspects = frozenset()
        elif is_guilty:
            task = task._replace(known=task.known | {position: error})
        else:
            suspects |= {position}
        worker.close()
        fresh = Worker(self._module, 1 if position == AT_ONCE else worker.tasks_at_once)
        self._workers[self._workers.index(worker)] = fresh
        fresh.give(task, suspects)
        fresh.later.extend([*others, *worker.later])

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
