"""The whole way: a file, the real worker, the real trace agent, the hints. Needs torch."""

import sys

import pytest
from editor import Editor, neovim, vscode

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.asyncio(loop_scope="function")]
REAL = [sys.executable, "-P", "-m", "sollens.analysis.worker"]
HEAD = "import torch\n\n\nclass Model(torch.nn.Module):\n"
INPUTS = "\n\ndef get_inputs():\n    return [torch.rand(8, 512)]\n\n\ndef get_init_inputs():\n    return []\n"
GOOD = f"""{HEAD}\
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(512, 2048)

    def forward(self, x):
        y = self.a(x)
        return torch.relu(y)
{INPUTS}"""


def forward(*lines: str) -> str:
    return f"{HEAD}    def forward(self, x):\n" + "".join(f"        {line}\n" for line in lines) + INPUTS


@pytest.mark.parametrize("capabilities", [neovim, vscode], ids=["neovim", "vscode"])
async def test_a_newcomer_opens_a_file_saves_and_sees_its_speed_of_light(start, capabilities):
    editor: Editor = await start(capabilities=capabilities(), worker=REAL, options={"interpreter": sys.executable})
    uri = editor.open(GOOD)
    marks = await editor.analysed(uri)
    assert all(mark.severity >= 3 for mark in marks)
    labels = await editor.labels(uri)
    assert {3, 9, 10} <= set(labels)
    assert all(len(label) <= 25 for label in labels.values())
    assert "≥" in labels[3]
    before = labels[9]
    assert "NVIDIA H100" in await editor.hover(uri, 3)
    bigger = GOOD.replace("2048", "8192")
    editor.replace(uri, bigger)
    editor.save(uri, bigger)
    await editor.until(lambda: editor.refreshes == 2)
    assert (await editor.labels(uri))[9] != before


BAD = {
    "syntax-error": "import torch\ndef f(:\n",
    "import-error": "import torch\nimport no_such_package_at_all\n" + GOOD,
    "missing-shapes": f"{HEAD}    def forward(self, x):\n        return x * 2\n",
    "constructor-failed": GOOD.replace("super().__init__()", "super().__init__(); raise ValueError('no')"),
    "inputs-failed": GOOD.replace("return [torch.rand(8, 512)]", "raise ValueError('no')"),
    "forward-failed": forward("return x @ x"),
    "deadline": forward("while True: pass"),
    "process-exit": forward("import sys; sys.exit(3)"),
    "data-dependent": forward("return x[x > 0]"),
}


@pytest.mark.parametrize("code", BAD)
async def test_bad_input_gets_a_clear_mark(start, code):
    options = {"interpreter": sys.executable, "settings": {"deadline": 5 if code == "deadline" else 60}}
    editor: Editor = await start(worker=REAL, options=options)
    uri = editor.open(BAD[code])
    marks = {mark.code: mark for mark in await editor.analysed(uri)}
    assert code in marks, marks
    assert marks[code].message


async def test_what_the_user_prints_does_not_reach_the_editor(start):
    editor: Editor = await start(worker=REAL, options={"interpreter": sys.executable})
    uri = editor.open(forward("print('Content-Length: 3')", "import os; os.write(1, b'noise')", "return x * 2"))
    await editor.analysed(uri)
    assert await editor.labels(uri) != {}
