from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio
from editor import Editor

Start = Callable[..., Awaitable[Editor]]


@pytest_asyncio.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts editors on a folder of the test's own, and ends them with the test."""
    editors: list[Editor] = []

    async def starter(**options: object) -> Editor:
        editor = await Editor.start(tmp_path, **options)
        editors.append(editor)
        return editor

    yield starter
    for editor in editors:
        await editor.stop()
