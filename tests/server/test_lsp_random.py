"""Whatever is typed and saved, through the real protocol: a hint stands on its own statement's line, or nowhere.

The full run is benchmarks/editor.
"""

import pytest
from editor import Editor, neovim, vscode
from typist import Typist

pytestmark = pytest.mark.asyncio(loop_scope="function")


@pytest.mark.parametrize(("capabilities", "seed"), [(vscode, 1), (neovim, 2)])
async def test_every_shown_hint_belongs_to_the_statement_on_its_line(start, capabilities, seed):
    editor: Editor = await start(capabilities=capabilities())
    typist = Typist(editor, seed)
    await typist.begin()
    for _ in range(150):
        await typist.step()
    assert typist.hints_seen > 300
