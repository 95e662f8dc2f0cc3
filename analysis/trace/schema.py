"""The trace that an agent records: plain data, shared by the agent (the user's interpreter) and the analysis.

Standard library only and Python 3.10 syntax: this file is imported inside the user's interpreter.

Values in `Op.args`, `Op.kwargs`, `Op.outputs` and `Trace.outputs` are JSON values with tagged objects:

    {"tensor": 7}                a tensor, by id in `Trace.tensors`
    {"dtype": "f32"}             a dtype, by its short name
    {"float": "inf"}             inf, -inf or nan
    {"complex": [re, im]}
    {"slice": [start, stop, step]}
    {"tuple": [...]}             only where a tuple differs from a list for the operator
    {"dict": [[key, value], ..]} mappings of outputs
    {"opaque": "repr"}           anything else; devices, layouts and memory formats are dropped or opaque
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA_VERSION = 1

# Short dtype names and their width in bits. Packed 4-bit types hold two elements a byte.
DTYPE_BITS = {
    "bool": 8, "u8": 8, "i8": 8, "u16": 16, "i16": 16, "u32": 32, "i32": 32, "u64": 64, "i64": 64,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c32": 32, "c64": 64, "c128": 128,
    "f8e4m3": 8, "f8e5m2": 8, "f8e4m3fnuz": 8, "f8e5m2fnuz": 8, "f8e8m0": 8, "f4e2m1": 4, "i4": 4, "u4": 4,
}  # fmt: skip

# How a tensor enters the program.
INPUT, PARAMETER, BUFFER, CONSTANT, INTERMEDIATE = "input", "parameter", "buffer", "constant", "intermediate"


@dataclass
class Tensor:
    """One tensor value (after an in-place update a tensor keeps its id)."""

    id: int
    dtype: str
    shape: list[int]
    # Tensors that share memory share this number; a view has its base's.
    storage: int
    kind: str = INTERMEDIATE
    # "fc.weight" for parameters and buffers, the argument's name for inputs.
    name: str = ""
    strides: list[int] | None = None
    offset: int = 0
    # Flat row-major values at the program's start, when they do not depend on chance and are few (integer, bool and
    # small float tensors built from arange, tensor([...]), tril(ones) ...): {"dtype", "data": base64 of little-endian
    # bytes}.
    values: dict[str, str] | None = None
    # Built by a random factory: its example values mean nothing.
    random: bool = False


@dataclass
class Block:
    """The body of a loop or of a branch's side: tensors that each run is given, its operators, what it gives.

    Operators of a block may also use tensors from outside.
    """

    inputs: list[int]
    ops: list[Op]
    outputs: list[Any]


@dataclass
class Op:
    """One recorded operator call."""

    # "aten.convolution.default", "fn.linear" for those that are caught whole at the function level, or
    # "jax.dot_general": a primitive, with the precision it asks for after another dot.
    target: str
    args: list[Any]
    kwargs: dict[str, Any]
    outputs: Any
    span: int = -1  # index into Trace.spans
    module: int = -1  # index into Trace.modules
    # Ids of argument tensors that this call writes in place.
    mutates: list[int] = field(default_factory=list[int])
    # Every output shares memory with an argument and nothing is written: moves no data.
    view: bool = False
    # Of loops and branches.
    blocks: list[Block] = field(default_factory=list[Block])
    # The number (`numbered`) of the first operator of the source-level operator that this one is a part of.
    group: int = -1
    # Of a backward pass; span and module are then those of the operator whose gradient it computes.
    backward: bool = False


@dataclass
class Span:
    """A source range of the user's code: 1-based lines, 0-based UTF-8 byte columns as `ast` has them.

    `stack` holds the outer frames (innermost first, user files only) as [file, line, function].
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str = ""
    stack: list[list[Any]] = field(default_factory=list[list[Any]])


@dataclass
class Module:
    """A sub-module call: dotted path from the root ("" is the root), class name, and where its parent builds it."""

    path: str
    type: str
    # File and line of the class's `class` statement and of the line of `__init__` that made it, when in user code.
    class_file: str = ""
    class_line: int = 0
    created_file: str = ""
    created_line: int = 0
    calls: int = 0


@dataclass
class Trace:
    """What one target did when it ran on example inputs.

    `setup` holds the operators of construction and of `get_inputs` on which tensors of the program depend (masks,
    tables), so that their values are known without being sent; they are no work of the program and no traffic.
    """

    name: str
    frontend: str
    tensors: list[Tensor]
    ops: list[Op]
    outputs: Any
    spans: list[Span]
    modules: list[Module]
    setup: list[Op] = field(default_factory=list[Op])
    line: int = 0  # of the target's class or def
    forward_line: int = 0
    # Framework settings that change a number: {"float32_matmul_precision": "highest", "cudnn_allow_tf32": true, ...}
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    assumptions: list[str] = field(default_factory=list[str])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    schema: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """The trace as JSON text."""
        return json.dumps(asdict(self), separators=(",", ":"))


def from_json(text: str | bytes | dict[str, Any]) -> Trace:
    """The trace in `text`; raises ValueError when its schema version is another."""
    raw: dict[str, Any] = dict(text) if isinstance(text, dict) else json.loads(text)
    if raw.get("schema") != SCHEMA_VERSION:
        raise ValueError(f"trace schema: expected {SCHEMA_VERSION}, found {raw.get('schema')}")
    raw["tensors"] = [Tensor(**t) for t in raw["tensors"]]
    raw["ops"] = [_op(o) for o in raw["ops"]]
    raw["setup"] = [_op(o) for o in raw.get("setup", [])]
    raw["spans"] = [Span(**s) for s in raw["spans"]]
    raw["modules"] = [Module(**m) for m in raw["modules"]]
    return Trace(**raw)


def _op(raw: dict[str, Any]) -> Op:
    op = Op(**raw)
    if op.blocks:
        blocks: list[Any] = op.blocks
        op.blocks = [Block(b["inputs"], [_op(o) for o in b["ops"]], b["outputs"]) for b in blocks]
    return op


def numbered(ops: list[Op]) -> list[Op]:
    """Operators by number: those of the program, then those of its blocks, level by level."""
    found = list(ops)
    for op in found:  # grows while it is walked
        found += [inner for block in op.blocks for inner in block.ops]
    return found


@dataclass
class Problem:
    """Why something could not be analysed: a code of the catalogue, where, what was expected and found, what to do."""

    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    detail: str = ""
