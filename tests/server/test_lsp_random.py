"""Whatever is typed and saved, through the real protocol: a hint stands on its own statement's line, or nowhere.

The full run is benchmarks/editor.
"""

import psutil
import pytest
from editor import MODEL, Editor, neovim, vscode
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


async def test_opening_saving_and_closing_leaves_nothing_behind(start):
    editor: Editor = await start()
    text = MODEL + "# x\n" * 2000
    process = psutil.Process(editor.pid)
    sizes: list[int] = []
    for count in range(180):
        uri = editor.open(text, name=f"model{count % 3}.py")
        editor.edit(uri, (0, 0), (0, 0), "# é😋\n")
        editor.save(uri)
        if count % 10 == 9:
            await editor.analysed(uri, version=2)
        editor.close(uri)
        await editor.heard(uri)
        sizes.append(process.memory_info().rss)
        assert len(process.children()) == 1
    # Each round holds some 200 kB of text and rows: sixty that stayed would show.
    assert max(sizes[120:]) < max(sizes[:60]) + 8e6
    assert not [each for each in editor.published if each.version is None and each.diagnostics]
