"""One running job a document: a new one cancels the old."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Jobs:
    """Tasks by key, held while they run; use from one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def start(self, key: str, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `job` in place of the one that runs for `key`. What it raises is logged."""
        self.cancel(key)
        task = asyncio.create_task(job)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._finished(key, done))
        return task

    def cancel(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is not None:
            self._ending.add(task)
            task.cancel()

    def is_running(self, key: str) -> bool:
        return key in self._tasks

    async def close(self) -> None:
        """Cancel all jobs and wait for their ends."""
        for key in tuple(self._tasks):
            self.cancel(key)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _finished(self, key: str, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("the job for %s failed", key, exc_info=problem)
