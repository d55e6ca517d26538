"""Runs the tasks of a suite in processes, each of which may die, hang or be cut short without the others' results.

Tasks of one group go to few processes, since it takes long to build what they are held against; where there is a limit
of time and there are more groups than processes, each group gets its share of it.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread
from types import FrameType
from typing import Any

from tilegen.bench.gpu_worker import CallFailedError, GpuWorker

_TURN = 0.2  # seconds between looks at the clock
# Processes take all cores already. Read by libraries when they are loaded, so by processes started from here on.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Task:
    """function: at the top level of its module."""

    group: str
    function: Callable[[Any], Any]
    value: Any


@dataclass(frozen=True)
class Done:
    """A task and what came of it: a value, or else why there is none."""

    task: Task
    value: Any
    failure: str = ""


@dataclass(eq=False)
class _Member:
    """A process, the group that it has built things for, and the seconds that it has been at it."""

    worker: GpuWorker = field(default_factory=GpuWorker)
    group: str = ""
    stayed: float = 0.0


class _Groups:
    """What is left to do, and which group a process goes on with."""

    def __init__(self, tasks: Sequence[Task], stay: float) -> None:
        """stay: seconds after which a process leaves a group to others."""
        self.count = 0
        self._left: dict[str, deque[Task]] = defaultdict(deque)
        self._spent: Counter[str] = Counter()
        self._at: dict[_Member, str] = {}
        self._stay = stay
        self._changed = Condition()
        self.add(tasks)

    def add(self, tasks: Sequence[Task]) -> None:
        with self._changed:
            self.count += len(tasks)
            for task in tasks:
                self._left[task.group].append(task)
            self._changed.notify_all()

    def next(self, member: _Member, stopped: Callable[[], bool]) -> Task | None:
        """Of the group that the process has been at, unless it has had its time there: else of the one that fewest
        processes are at, and has had least of their time, and has most left. None: nothing is left, nor comes of what
        others are at."""
        with self._changed:
            self._at.pop(member, None)
            self._changed.notify_all()
            while not (groups := [group for group, tasks in self._left.items() if tasks]):
                if not self._at or stopped():
                    return None
                self._changed.wait(_TURN)
            if member.group not in groups or member.stayed > self._stay:
                at = Counter(self._at.values())
                member.group = min(groups, key=lambda g: (at[g], self._spent[g], -len(self._left[g])))
                member.stayed = 0.0
            self._at[member] = member.group
            return self._left[member.group].popleft()

    def took(self, member: _Member, seconds: float) -> None:
        with self._changed:
            self._spent[member.group] += seconds
            member.stayed += seconds


class Pool:
    """`jobs` processes; after `seconds` (0: never) nothing more is begun, and what is under way is ended.

    cut: why not all that was asked for has been run; empty if it has."""

    def __init__(self, jobs: int, seconds: float = 0.0) -> None:
        os.environ.update(_ONE_THREAD)
        self.jobs = jobs
        self.cut = ""
        self._begun = time.monotonic()
        self._seconds = seconds
        self._members = [_Member() for _ in range(jobs)]
        self._groups = _Groups((), 0.0)

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        """Seconds until it ends."""
        return self._seconds - self.spent if self._seconds else float("inf")

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.worker.close()

    def add(self, tasks: Sequence[Task]) -> None:
        """While `each` is gone through: more to do."""
        self._groups.add(tasks)

    def each(self, tasks: Sequence[Task], limit: float) -> Iterator[Done]:
        """What comes of each task, as it comes: of all of them, or of those that there is time for, or until SIGTERM or
        SIGINT. In the main thread. limit: seconds for one task."""
        names = len({task.group for task in tasks})
        stay = self.left * self.jobs / names if names > self.jobs else float("inf")
        groups = self._groups = _Groups(tasks, stay)
        found: SimpleQueue[tuple[Done, Event]] = SimpleQueue()
        threads = [Thread(target=self._serve, args=(m, groups, limit, found)) for m in self._members]
        with self._stopped_by_signals():
            for thread in threads:
                thread.start()
            given = 0
            try:
                while given < groups.count and not self.cut:
                    try:
                        done, settled = found.get(timeout=max(min(_TURN, self.left), 0.0))
                    except Empty:
                        if self.left <= 0:
                            self.cut = f"{self._seconds:g} s were over"
                        continue
                    yield done
                    given += 1
                    settled.set()
            finally:
                if given < groups.count:
                    self.cut = self.cut or "its caller ended it"
                    self._end(threads)
                for thread in threads:
                    thread.join()
            while not found.empty():
                yield found.get()[0]

    def _serve(self, member: _Member, groups: _Groups, limit: float, found: SimpleQueue[tuple[Done, Event]]) -> None:
        while not self.cut and (task := groups.next(member, lambda: bool(self.cut))) is not None:
            begun = time.monotonic()
            try:
                value = member.worker.call(f"{__name__}:called", task.function, task.value, limit=limit)
                done = Done(task, value)
            except Exception as error:  # whatever it is, the other tasks go on
                if not isinstance(error, CallFailedError):
                    member.worker.close()
                if self.cut:
                    return
                done = Done(task, None, (str(error).strip() or repr(error)).splitlines()[-1])
            groups.took(member, time.monotonic() - begun)
            settled = Event()
            found.put((done, settled))
            while not settled.wait(_TURN) and not self.cut:  # more may come of it, for this process best of all
                pass

    def _end(self, threads: Sequence[Thread]) -> None:
        while any(thread.is_alive() for thread in threads):
            for member in self._members:
                member.worker.interrupt()
            time.sleep(_TURN / 4)

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        def stop(number: int, _: FrameType | None) -> None:
            self.cut = f"stopped by {signal.Signals(number).name}"

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def called(function: Callable[[Any], Any], value: Any) -> Any:
    """In a process of the pool."""
    return function(value)
