"""A traced program whose one unknown operator a model translates, checked by what that operator gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.llm.loopback import Answer, loopback
from tests.llm.test_translate import Desk, fenced

pytest.importorskip("torch")

SOURCE = """
import torch


@torch.library.custom_op("mylib::scaled_relu", mutates_args=())
def scaled_relu(x: torch.Tensor, w: torch.Tensor, k: float) -> torch.Tensor:
    return torch.relu(x * w) * k


@scaled_relu.register_fake
def _(x, w, k):
    return torch.empty_like(x)


# sol: x=f32[B=64, D=512], w=f32[D]
def model(x, w):
    return torch.softmax(scaled_relu(x + 1.0, w, 0.5), dim=-1)
"""
RIGHT = """program scaled_relu({header})
  input a0: f32[{rows}, {cols}]
  input a1: f32[{cols}]
  product[i:{rows}, j:{cols}]: f32 = a0[i, j] * a1[j]
  y[i:{rows}, j:{cols}]: f32 = maximum(product[i, j], 0.0) * {k}
  output y
"""


def program(body: dict[str, Any], k: str) -> Answer:
    """The operator's program at the symbols that the task names."""
    asked = body["messages"][1]["content"]
    symbols = next(line for line in asked.split("\n") if line.startswith("Symbols: "))[9:]
    shape = next(line for line in asked.split("\n") if "input a0" in line)
    rows, cols = shape.partition("[")[2].rstrip("]").split(", ")
    header = "" if symbols == "none" else symbols
    return fenced(RIGHT.format(header=header, rows=rows, cols=cols, k=k))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with loopback([Answer("nothing yet")]) as server:
        made = Desk(tmp_path, server)
        made.agree()
        yield made
        made.pipeline.close()


def test_an_unknown_operator_is_translated_alone_and_put_in_its_place(desk: Desk) -> None:
    path = desk.write("model.py", SOURCE)
    before = desk.check(path, on=False).targets[0]
    assert before.partial and "scaled_relu" in before.partial[0]
    desk.server.script = lambda body: program(body, "0.5")
    (after,) = desk.check(path, validate=True).targets
    assert not after.partial
    asked = desk.server.requests[0]["messages"][1]["content"]
    assert "mylib.scaled_relu" in asked and "0.5" in asked and "custom_op" in asked
    elements = 64 * 512
    assert after.vector_ops - before.vector_ops == 3 * elements  # times w, maximum, times k
    assert after.validation.status == "validated", after.validation
    assert any("scaled_relu" in told and "translated by scripted" in told for told in after.assumptions)
    assert after.confidence == "medium" and after.frontend == "torch"
    sent = len(desk.server.requests)
    assert desk.check(path, validate=True).targets[0].vector_ops == after.vector_ops
    assert len(desk.server.requests) == sent


def test_a_large_program_s_operator_is_compared_on_a_twin_and_used_at_full_size(desk: Desk) -> None:
    source = SOURCE.replace("x: torch.Tensor, w: torch.Tensor, k", "x: torch.Tensor, k").replace("x * w", "x")
    source = source.replace("_(x, w, k)", "_(x, k)").replace("x + 1.0, w, 0.5", "x + 1.0, 0.5")
    path = desk.write("large.py", source.replace("B=64, D=512], w=f32[D]", "B=8192, D=4096]").replace("(x, w)", "(x)"))

    def answer(body: dict[str, Any]) -> Answer:
        text = program(body, "0.5").text.replace("  input a1", "  # input a1").replace("* a1[j]", "")
        return Answer(text)

    desk.server.script = answer
    (report,) = desk.check(path, validate=True).targets
    assert not report.partial, report.assumptions
    assert "D0=" in desk.server.requests[0]["messages"][1]["content"]  # other sizes than in the recorded run
    assert report.validation.status == "validated" and report.validation.sizes


def test_a_wrong_translation_of_an_operator_leaves_it_unknown(desk: Desk) -> None:
    path = desk.write("model.py", SOURCE)
    desk.server.script = lambda body: program(body, "0.7")
    (report,) = desk.check(path).targets
    assert report.partial and any("could not be translated" in told for told in report.assumptions)
    told = desk.server.requests[1]["messages"][-1]["content"]
    assert "1.4 x expected" in told


def test_without_consent_an_unknown_operator_stays_unknown(desk: Desk) -> None:
    desk.consents.revoke(desk.root)
    found = desk.check(desk.write("model.py", SOURCE))
    assert found.targets[0].partial and not desk.server.requests
    assert "llm-consent" in [p.code for p in found.problems]
