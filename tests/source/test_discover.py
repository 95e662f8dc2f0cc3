"""Targets and example inputs of a file, found without running it."""

from pathlib import Path

import pytest

from sollens.analysis.source import project
from sollens.analysis.source.discover import discover
from sollens.analysis.source.model import TensorSpec
from sollens.analysis.source.text import UnreadableSource, decode

MODULE = """\
import torch
from torch import nn

dim, heads = 64, 4
hidden = 4 * dim

{pragma}
class Block(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()

    def forward(self, x, mask=None):
        return x
"""


def test_a_pragma_above_a_class_gives_its_inputs() -> None:
    found = discover(MODULE.format(pragma="# sol: init(dim, heads=heads), x=f32[B=8, 512, hidden]"))
    (target,) = found.targets
    assert not found.problems
    assert (target.name, target.kind, target.frontend, target.line, target.convention) == (
        "Block",
        "class",
        "torch",
        8,
        "pragma",
    )
    assert target.shapes is not None
    assert target.shapes.inputs == (("x", TensorSpec("f32", (8, 512, 256))),)
    assert (target.shapes.init_args, target.shapes.init_kwargs) == ((64,), (("heads", 4),))


def test_pragma_lines_join_and_may_stand_above_decorators() -> None:
    pragma = "# sol: init(dim),\n# sol: x=f32[2, 3]\n@some.decorator"
    (target,) = discover(MODULE.format(pragma=pragma)).targets
    assert target.shapes is not None and target.shapes.inputs == (("x", TensorSpec("f32", (2, 3))),)


@pytest.mark.parametrize(
    ("pragma", "line", "pointed_at", "expected"),
    [
        ("# sol: init(dim), x=f23[8]", 7, "f23", "a dtype"),
        ("# sol: init(dim),\n# sol: x=f32[huge]", 8, "huge", "a name bound to an integer"),
        ("# sol: y=f32[8]", 7, "y", "an argument of Block (x, mask)"),
        ("# sol: init(depth=3), x=f32[8]", 7, "depth", "a constructor argument of Block (width, heads)"),
    ],
)
def test_a_bad_pragma_is_one_problem_on_the_words_meant(pragma: str, line: int, pointed_at: str, expected: str) -> None:
    text = MODULE.format(pragma=pragma)
    found = discover(text)
    (problem,) = found.problems
    shown = text.split("\n")[line - 1]
    assert (problem.code, problem.line) == ("bad-pragma", line)
    assert shown[problem.column : problem.end_column] == pointed_at
    assert expected in problem.message
    assert not found.targets


def test_a_missing_argument_is_named() -> None:
    (problem,) = discover(MODULE.format(pragma="# sol: init(dim)")).problems
    assert "a value for x of Block" in problem.message


def test_columns_are_utf8_bytes() -> None:
    (problem,) = discover(MODULE.format(pragma="# sol: init('µµ'), x=f99[8]")).problems
    assert problem.column == len("# sol: init('µµ'), x=".encode())


def test_a_pragma_above_nothing_is_reported_and_one_in_a_string_is_none() -> None:
    (problem,) = discover("# sol: x=f32[8]\nx = 1\ny = '''\n# sol: z\n'''\n").problems
    assert problem.code == "bad-pragma"
    assert "a top-level class or def on the next line" in problem.message


KERNELBENCH = """\
import torch.nn as nn

class Part(nn.Module):
    def forward(self, x):
        return x

class Model(nn.Module):
    def __init__(self, n):
        self.part = Part()
    def forward(self, x):
        return self.part(x)

def get_inputs():
    return []

def get_init_inputs():
    return []
"""


def test_kernelbench_names_the_model_and_says_nothing_of_its_parts() -> None:
    found = discover(KERNELBENCH)
    assert [(t.name, t.convention, t.shapes) for t in found.targets] == [("Model", "kernelbench", None)]
    assert not found.problems


def test_a_pragma_of_settings_alone_leaves_the_inputs_to_kernelbench() -> None:
    found = discover(KERNELBENCH.replace("class Model", "# sol: mode=train, hw=t4\nclass Model"))
    (target,) = found.targets
    assert (target.name, target.convention, target.mode) == ("Model", "kernelbench", "train")
    assert target.shapes is not None and target.shapes.hardware == "t4"
    assert not found.problems


def test_kernelbench_without_model_takes_the_one_module_that_no_other_uses() -> None:
    assert [t.name for t in discover(KERNELBENCH.replace("Model", "Net")).targets] == ["Net"]


def test_missing_shapes_suggest_a_pragma_that_invents_nothing() -> None:
    (problem,) = discover(MODULE.format(pragma="")).problems
    assert (problem.code, problem.severity, problem.line) == ("missing-shapes", "information", 8)
    assert problem.pragma == "# sol: init(width=?), x=f32[?]"


def test_plain_functions_and_classes_are_left_alone_but_jitted_ones_are_not() -> None:
    text = (
        "import torch, jax\nclass Config: ...\ndef f(x): ...\n@torch.compile\ndef g(x): ...\n@jax.jit\ndef h(p): ...\n"
    )
    assert [p.line for p in discover(text).problems] == [5, 7]


def test_the_framework_of_a_target_follows_its_imports() -> None:
    text = "from flax import nnx\n# sol: x=f32[8]\nclass M(nnx.Module):\n    def __call__(self, x): ...\n"
    assert [t.frontend for t in discover(text).targets] == ["jax"]


def test_an_autograd_function_is_no_module() -> None:
    text = "import torch\nclass F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): ...\n"
    assert not discover(text).problems


@pytest.mark.parametrize("text", ["class Model(:\n", "x = '\0'\n", "(" * 5000, "def f(:\r\n    é(\n"])
def test_text_that_is_no_python_is_a_syntax_error(text: str) -> None:
    (problem,) = discover(text).problems
    assert problem.code == "syntax-error"


def test_line_numbers_are_those_of_ast_for_every_line_end() -> None:
    for end in ("\n", "\r\n", "\r"):
        text = MODULE.replace("\n", end).format(pragma=f"# \f \u2028{end}# sol: init(1), x=f32[8]")
        assert [t.line for t in discover("\ufeff" + text).targets] == [9]


def test_encodings() -> None:
    assert decode("\ufeffé".encode()) == "é"
    assert decode("# coding: latin-1\né".encode("latin-1")).endswith("é")
    for data in ("é".encode("latin-1"), b"# coding: nonsense\n", "# coding: utf-8\né".encode("latin-1")):
        with pytest.raises(UnreadableSource) as caught:
            decode(data)
        assert caught.value.problem.code == "syntax-error"


def test_pyproject_gives_targets_defaults_and_excludes(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.sollens]\nhardware = "t4"\nprecision = "tf32"\nexclude = ["old/**"]\n'
        'targets = [{ file = "m.py", name = "Block", inputs = "init(dim), x=f32[8, dim]" },\n'
        '  { file = "m.py", name = "Gone", inputs = "x=f32[8]" }, { name = "half" }]\n'
    )
    path = tmp_path / "m.py"
    settings = project.find(path)
    assert (settings.hardware, settings.precision) == ("t4", "tf32")
    assert settings.excludes(tmp_path / "old" / "deep" / "a.py") and not settings.excludes(path)
    found = discover(MODULE.format(pragma=""), path, settings)
    assert [(t.name, t.convention) for t in found.targets] == [("Block", "pyproject")]
    assert [p.code for p in found.problems] == ["bad-config", "bad-config"]
    assert "'Gone'" in found.problems[1].message


@pytest.mark.parametrize("toml", ["[tool.sollens", "[tool]\nsollens = 3", "[tool.sollens]\nprecision = 'fp7'"])
def test_a_broken_pyproject_is_a_problem(toml: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(toml)
    assert [p.code for p in project.find(tmp_path / "m.py").problems] == ["bad-config"]
