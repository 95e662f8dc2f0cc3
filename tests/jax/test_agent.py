"""The agent's traces of JAX programs: places, modules, inputs, problems; and that its parent starts no back end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sollens.analysis.trace.host import _ENVIRONMENT
from tests.jax.tracing import BOOT

ROOT = Path(__file__).parents[2]


def spec(name: str, dtype: str, *shape: int) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def function(name: str, *inputs: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "function", "name": name, "inputs": list(inputs)}


def ok(reply: Any) -> Any:
    assert not reply.problems, reply.problems[0]
    return reply.trace


def placed(trace: Any) -> list[tuple[str, int, int, int]]:
    """(primitive, line, column, end column) below the prelude."""
    spans = [trace.spans[op.span] for op in trace.ops]
    return [(op.target, s.line - 3, s.column, s.end_column) for op, s in zip(trace.ops, spans, strict=True)]


def test_an_equation_stands_at_the_columns_of_the_users_call(trace) -> None:
    text = """
    def f(x, w):
        y = x @ w + jnp.sin(x[0, 0]); z = jnp.tanh(y)
        return z
    """
    found = placed(ok(trace(text, function("f", spec("x", "f32", 4, 3), spec("w", "f32", 3, 2)))))
    assert ("jax.dot_general", 3, 8, 13) in found
    assert ("jax.sin", 3, 16, 32) in found
    assert ("jax.tanh", 3, 38, 49) in found


def test_a_library_function_that_was_traced_before_stands_at_this_call(trace) -> None:
    text = """
    def f(x):
        a = jax.nn.silu(x)
        b = jax.nn.silu(x + 1)
        return jnp.where(a > b, a, b), jnp.where(b > a, a, b)
    """
    trace_ = ok(trace(text, function("f", spec("x", "f32", 4))))
    lines = [line for target, line, *_ in placed(trace_) if target == "jax.logistic"]
    assert lines == [3, 4]
    columns = [column for target, _, column, _ in placed(trace_) if target == "jax.select_n"]
    assert columns == [11, 35]


def test_a_jitted_function_of_the_user_keeps_its_own_lines_and_its_callers(trace) -> None:
    text = """
    @jax.jit
    def inner(x):
        return jnp.exp(x)

    def f(x):
        y = inner(x)
        return inner(y)
    """
    trace_ = ok(trace(text, function("f", spec("x", "f32", 4))))
    assert [line for _, line, *_ in placed(trace_)] == [4, 4]
    callers = [trace_.spans[op.span].stack[0][1] - 3 for op in trace_.ops]
    assert callers == [7, 8]


def test_a_call_of_a_library_is_one_operator_and_a_loop_of_calls_is_many(trace) -> None:
    text = """
    def f(x):
        y = jax.nn.softmax(x)
        for _ in range(3):
            y = y @ x
        return y
    """
    trace_ = ok(trace(text, function("f", spec("x", "f32", 4, 4))))
    groups = [op.group for op in trace_.ops]
    softmax = [g for op, g in zip(trace_.ops, groups, strict=True) if op.target != "jax.dot_general"]
    matmuls = [g for op, g in zip(trace_.ops, groups, strict=True) if op.target == "jax.dot_general"]
    assert len(softmax) > 3 and len(set(softmax)) == 1
    assert len(set(matmuls)) == 3


MODULES = {
    "linen": """
    import flax.linen as nn
    class Net(nn.Module):
        def setup(self):
            self.first = nn.Dense(8)
            self.second = nn.Dense(2)
        def __call__(self, x):
            return self.second(nn.relu(self.first(x)))
    """,
    "nnx": """
    from flax import nnx
    class Net(nnx.Module):
        def __init__(self, *, rngs):
            self.first = nnx.Linear(3, 8, rngs=rngs)
            self.second = nnx.Linear(8, 2, rngs=rngs)
        def __call__(self, x):
            return self.second(nnx.relu(self.first(x)))
    """,
    "equinox": """
    import equinox as eqx
    class Net(eqx.Module):
        first: eqx.nn.Linear
        second: eqx.nn.Linear
        def __init__(self, *, key):
            self.first = eqx.nn.Linear(3, 8, key=key)
            self.second = eqx.nn.Linear(8, 2, key=key)
        def __call__(self, x):
            return jax.vmap(lambda r: self.second(jax.nn.relu(self.first(r))))(x)
    """,
    "plain": """
    class Dense:
        def __init__(self, i, o):
            self.w = jax.random.normal(jax.random.key(0), (i, o))
        def __call__(self, x):
            return x @ self.w
    class Net:
        def __init__(self):
            self.first = Dense(3, 8)
            self.second = Dense(8, 2)
        def __call__(self, x):
            return self.second(jax.nn.relu(self.first(x)))
    """,
    "haiku-style": """
    class Net:
        def __init__(self):
            self.w, self.v = jnp.ones((3, 8)), jnp.ones((8, 2))
        def __call__(self, x):
            with jax.named_scope("first"):
                h = jax.nn.relu(x @ self.w)
            with jax.named_scope("second"):
                return h @ self.v
    """,
}  # fmt: skip


@pytest.mark.parametrize("style", MODULES)
def test_modules_have_paths_in_every_style_and_weights_are_parameters(trace, style) -> None:
    target = {"kind": "class", "name": "Net", "inputs": [spec("x", "f32", 4, 3)]}
    found = ok(trace(MODULES[style], target))
    paths = [found.modules[op.module].path for op in found.ops if op.target == "jax.dot_general"]
    assert paths == ["first", "second"]
    weights = {t.name: t.shape for t in found.tensors if t.kind == "parameter"}
    assert sorted(map(sorted, weights.values())).count([3, 8]) == 1
    assert [t.name for t in found.tensors if t.kind == "input"] == ["x"]
    if style != "plain" and style != "haiku-style":  # theirs are made by classes that nobody watches
        made = {m.path: m.created_line for m in found.modules}
        lines = ("import jax\n\n\n" + MODULES[style]).split("\n")
        assert "self.first =" in lines[made["first"] - 1] and "self.second =" in lines[made["second"] - 1]


def test_the_backward_pass_belongs_to_the_modules_of_the_forward_pass(trace) -> None:
    text = """
    import flax.linen as nn
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            inner = nn.Dense(5, name="inner")
            return jax.grad(lambda y: inner(y).sum())(x) if not self.is_initializing() else inner(x)
    """
    found = ok(trace(text, {"kind": "class", "name": "Net", "inputs": [spec("x", "f32", 4, 3)]}))
    assert {found.modules[op.module].path for op in found.ops if op.target == "jax.dot_general"} == {"inner"}


def test_kernelbench_files_may_hold_a_function_or_a_model(report) -> None:
    inputs = "\ndef get_inputs():\n    return [jax.random.normal(jax.random.key(0), (4, 8)), 2.0]\n"
    one = report("def scale(x, by):\n    return x * by\n" + inputs)
    assert [(t.name, t.bytes.compulsory) for t in one.targets] == [("scale", 2 * 4 * 8 * 4)]
    model = """
    class Model:
        def __init__(self, width):
            self.w = jnp.ones((8, width))
        def __call__(self, x, by):
            return x @ self.w * by
    def get_init_inputs():
        return [16]
    """
    import textwrap

    other = report(textwrap.dedent(model) + inputs)
    assert [(t.name, t.macs) for t in other.targets] == [("Model", 4 * 8 * 16)], other.problems


def test_pytrees_are_named_by_their_paths(trace) -> None:
    text = "def f(params, x):\n    return [x @ p['w'] for p in params]\n"
    params = {"name": "params", "value": [{"dict": [["w", spec("", "f32", 3, 2)]]}]}
    found = ok(trace(text, function("f", params, spec("x", "f32", 4, 3))))
    assert [t.name for t in found.tensors if t.kind == "input"] == ["params[0]['w']", "x"]


def test_a_loop_is_one_operator_with_a_body_and_a_known_length(trace) -> None:
    text = """
    def f(x):
        y = lax.fori_loop(0, 5, lambda i, c: c * 2.0, x)
        y = lax.while_loop(lambda s: s[0] <= 9, lambda s: (s[0] + 3, s[1] + 1.0), (0, y))[1]
        return lax.while_loop(lambda s: s.sum() < 9, lambda s: s * 2, y)
    """
    found = ok(trace(text, function("f", spec("x", "f32", 4))))
    assert [(op.target, op.kwargs["length"]) for op in found.ops] == [
        ("jax.scan", 5),
        ("jax.scan", 4),
        ("jax.while", None),
    ]
    assert "jax.mul" in [op.target for op in found.ops[0].blocks[0].ops]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("def f(x):\n    return x @ x\n", "forward-failed", 2),
        ("def f(x):\n    return x if x.sum() > 0 else -x\n", "data-dependent", 2),
        ("def f(x):\n    return jnp.nonzero(x)\n", "data-dependent", 2),
        ("import nothing_of_this_name\ndef f(x):\n    return x\n", "import-error", 1),
    ],
)
def test_what_fails_is_a_problem_at_its_line(trace, text, code, line) -> None:
    reply = trace(text, function("f", spec("x", "f32", 4, 3)))
    assert reply.trace is None
    assert (reply.problems[0].code, reply.problems[0].line - 3) == (code, line), reply.problems[0]


def test_warming_and_tracing_start_no_back_end_and_no_thread() -> None:
    script = f"""
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("boot", {str(BOOT)!r})
boot = importlib.util.module_from_spec(spec); spec.loader.exec_module(boot); boot.load_package()
server = importlib.import_module("_sollens_trace.server")
threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
hello = server.warm_jax("import flax, equinox")
assert hello["warm"], hello
from jax._src import xla_bridge
assert not xla_bridge._backends, xla_bridge._backends
assert not os.path.isdir("/proc/self/task") or len(os.listdir("/proc/self/task")) == threads
print("torch" in sys.modules, "flax" in sys.modules, "equinox" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
                         env={**os.environ, **_ENVIRONMENT})  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["False", "True", "True"]


def test_the_parent_stays_without_a_back_end_after_a_child_ran_a_program(trace, host) -> None:
    text = "SCALE = jnp.ones(3)\ndef f(x):\n    return x * SCALE\n"
    for _ in range(2):
        ok(trace(text, function("f", spec("x", "f32", 4, 3))))
    process = host._process
    assert process is not None
    tasks = Path(f"/proc/{process.pid}/task")
    if tasks.is_dir():
        assert len(list(tasks.iterdir())) == 1


def test_a_jaxpr_is_read_with_or_without_its_constants() -> None:
    """`ClosedJaxpr` is a class of its own in some releases and part of `Jaxpr` in others."""
    import jax
    import jax.numpy as jnp

    from tests.jax.tracing import agent

    jaxpr = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(jax.ShapeDtypeStruct((3,), jnp.float32))
    found = []
    for form in (jaxpr, jaxpr.jaxpr):
        frames = agent("frames").Frames(__file__)
        table = agent("jaxpr.modules").Modules(frames)
        recorder = agent("jaxpr.record").Recorder(agent("jaxpr.places").Places(frames), 100, table.row)
        ops: list[Any] = []
        recorder.walk(form, [recorder.of_aval(jaxpr.in_avals[0], "input")], ops, agent("jaxpr.places").Context())
        found.append([op["target"] for op in ops])
    assert found[0] == found[1] == ["jax.sin", "jax.mul"]
