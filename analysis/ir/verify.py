"""Whether a program means something: names, shapes, bounds, kinds, and the work it asks for. Never raises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, Mod
from sollens.analysis.ir.nodes import (
    NO_SOURCE,
    REDUCTIONS,
    ROLES,
    SCANS,
    Apply,
    Branch,
    Call,
    Expr,
    IndexValue,
    Literal,
    Loop,
    Node,
    Program,
    Read,
    Select,
    Source,
    Statement,
    walk,
)
from sollens.analysis.ir.scalars import SCALAR_OPS
from sollens.analysis.ir.tensors import TensorType, points
from sollens.analysis.ir.text_print import affine_text
from sollens.analysis.ir.verify_bounds import Context, Prover, live_reads
from sollens.analysis.ir.verify_calls import complaints
from sollens.analysis.trace.schema import DTYPE_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class IrProblem:
    """What is wrong with a program, at which node. Codes are listed in docs/ir.md."""

    code: str
    node: str
    expected: str
    found: str
    source: Source = NO_SOURCE

    @property
    def message(self) -> str:
        """One sentence."""
        return f"{self.node}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimits:
    """What a program may ask for: points of all domains, elements of one tensor, nodes, problems, seconds of proofs."""

    points: int = 10**18
    elements: int = 10**13
    nodes: int = 200_000
    problems: int = 50
    seconds: float = 5.0


WORK_LIMITS = WorkLimits()


def verify(program: Program, limits: WorkLimits = WORK_LIMITS) -> tuple[IrProblem, ...]:
    """Every problem of a program, in its order; empty when it is valid."""
    verifier = _Verifier(limits)
    try:
        verifier.program(program)
    except _Enough:
        pass
    except RecursionError:
        verifier.problems.append(
            IrProblem(code="limit", node=program.name, expected="a program of bounded depth", found="deeper nesting")
        )
    return tuple(verifier.problems)


class _Enough(Exception):
    """The limit of problems is reached."""


# Executors compute positions in 64 bits.
_INTEGERS = 2**62
_IDENTIFIER = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class _Verifier:
    def __init__(self, limits: WorkLimits) -> None:
        self.limits = limits
        self.problems: list[IrProblem] = []
        self.used: set[str] = set()
        self.trips: dict[str, int] = {}
        self.prover = Prover(limits.seconds)
        self.at = ""
        self.source = NO_SOURCE

    def fail(self, code: str, expected: str, found: object) -> None:
        text = str(found)
        text = text if len(text) <= 200 else text[:197] + "..."
        self.problems.append(IrProblem(code=code, node=self.at, expected=expected, found=text, source=self.source))
        if len(self.problems) >= self.limits.problems:
            raise _Enough

    # --- the program

    def program(self, program: Program) -> None:
        self.at = program.name
        count = sum(1 for _ in walk((*program.setup, *program.nodes)))
        if count > self.limits.nodes:
            self.fail("limit", f"at most {self.limits.nodes} nodes", count)
            raise _Enough
        wanted = points((*program.setup, *program.nodes))
        if wanted > self.limits.points:
            self.fail("limit", f"at most {self.limits.points} points of work", wanted)
        for name, value in program.symbols:
            self.identifier(name)
            if value < 0:
                self.fail("extent", f"{name} of at least 0", value)
        scope: dict[str, TensorType] = {}
        for d in program.declarations:
            self.at = d.name
            if d.role not in ROLES:
                self.fail("role", f"a role ({', '.join(ROLES)})", d.role)
            self.define(scope, d.name, TensorType(d.dtype, d.shape))
        setup = {d.name: scope[d.name] for d in program.declarations if d.defined_by is None and d.name in scope}
        known = set(setup)
        self.nodes(program.setup, setup)
        for d in program.declarations:
            if d.defined_by is None:
                continue
            self.at, self.source = d.name, NO_SOURCE
            value = None if d.defined_by in known else setup.get(d.defined_by)
            if value is None:
                self.fail("undefined", "a setup tensor that holds the value", d.defined_by)
            elif value.shape != d.shape:
                self.fail("shape", f"{d.defined_by} of shape {list(d.shape)}", list(value.shape))
        self.nodes(program.nodes, scope)
        self.at, self.source = program.name, NO_SOURCE
        if not program.outputs:
            self.fail("output", "at least one output", "none")
        for name in program.outputs:
            if name not in scope:
                self.fail("undefined", "an output that the program defines", name)

    def identifier(self, name: str) -> None:
        if _IDENTIFIER.fullmatch(name) is None or len(name) > 200:
            self.fail("identifier", "a name of ASCII letters, digits and underscores, without leading __", repr(name))

    def define(self, scope: dict[str, TensorType], name: str, kind: TensorType) -> None:
        self.identifier(name)
        if name in self.used:
            self.fail("redefined", "a name that is defined once", name)
        self.used.add(name)
        scope[name] = kind
        if kind.dtype not in DTYPE_BITS:
            self.fail("dtype", f"a dtype ({', '.join(DTYPE_BITS)})", kind.dtype)
        if any(e < 0 for e in kind.shape):
            self.fail("extent", "extents of at least 0", list(kind.shape))
        elif kind.size > self.limits.elements:
            self.fail("limit", f"a tensor of at most {self.limits.elements} elements", kind.size)

    def lookup(self, scope: Mapping[str, TensorType], name: str) -> TensorType | None:
        found = scope.get(name)
        if found is None:
            hint = " (defined elsewhere: later, inside a loop or branch, or in setup)" if name in self.used else ""
            self.fail("undefined", "a tensor defined before its use", name + hint)
        return found

    # --- nodes

    def nodes(self, nodes: Iterable[Node], scope: dict[str, TensorType]) -> None:
        for node in nodes:
            self.source = node.source
            match node:
                case Statement():
                    self.at = node.name
                    self.statement(node, scope)
                    self.define(scope, node.name, TensorType(node.dtype, node.shape))
                case Call():
                    self.call(node, scope)
                case Loop():
                    self.loop(node, scope)
                case Branch():
                    self.branch(node, scope)

    def call(self, node: Call, scope: dict[str, TensorType]) -> None:
        self.at = node.results[0].name if node.results else node.op
        operands = [self.lookup(scope, o) for o in node.operands]
        types = [o for o in operands if o is not None]
        if len(types) == len(operands):
            for code, expected, found in complaints(node, types):
                self.fail(code, expected, found)
        for result in node.results:
            self.define(scope, result.name, TensorType(result.dtype, result.shape))

    def loop(self, node: Loop, scope: dict[str, TensorType]) -> None:
        here = self.at = f"loop {node.index.name}"
        self.identifier(node.index.name)
        if node.index.name in self.trips:
            self.fail("redefined", "an index that no enclosing loop has", node.index.name)
        if node.index.extent < 0 or (node.unknown_trips and node.index.extent != 1):
            self.fail("extent", "an extent of at least 0, and 1 when the trip count is unknown", node.index.extent)
        inner = dict(scope)
        for c in node.carried:
            initial = self.lookup(scope, c.initial)
            self.define(inner, c.name, initial or TensorType("f32", ()))
        outer_trips = self.trips
        self.trips = {**outer_trips, node.index.name: node.index.extent}
        self.nodes(node.body, inner)
        self.trips = outer_trips
        self.at, self.source = here, node.source
        for c in node.carried:
            following, start = self.lookup(inner, c.next), scope.get(c.initial)
            if following is not None and start is not None and following != start:
                self.fail("shape", f"{c.next} as {c.initial}: {_describe(start)}", _describe(following))
            self.define(scope, c.final, start or TensorType("f32", ()))
        for c in node.collected:
            kind = self.lookup(inner, c.inner)
            if kind is not None:
                self.define(scope, c.name, TensorType(kind.dtype, (max(node.index.extent, 0), *kind.shape)))

    def branch(self, node: Branch, scope: dict[str, TensorType]) -> None:
        here = self.at = f"branch {node.condition}"
        condition = self.lookup(scope, node.condition)
        if condition is not None and condition.size != 1:
            self.fail("shape", "a condition of one element", list(condition.shape))
        then, otherwise = dict(scope), dict(scope)
        self.nodes(node.then, then)
        self.nodes(node.otherwise, otherwise)
        self.at, self.source = here, node.source
        for m in node.results:
            left, right = self.lookup(then, m.then), self.lookup(otherwise, m.otherwise)
            if left is not None and right is not None and left != right:
                self.fail("shape", f"{m.otherwise} as {m.then}: {_describe(left)}", _describe(right))
            self.define(scope, m.name, left or TensorType("f32", ()))

    # --- statements

    def statement(self, node: Statement, scope: Mapping[str, TensorType]) -> None:
        extents = dict(self.trips)
        for d in node.domain:
            self.identifier(d.name)
            if d.name in extents:
                self.fail("redefined", "dimension names that are distinct, also from loop indices", d.name)
            if d.extent < 0:
                self.fail("extent", f"{d.name} of at least 0", d.extent)
            extents[d.name] = d.extent
        self.folds(node)
        ok = self.constraints(node.guard, extents)
        ok = self.body(node.body, extents, scope) and ok
        if not ok or any(e <= 0 for e in extents.values()):
            return
        for read, context in live_reads(node.body, Context(node.guard)):
            for axis, (index, extent) in enumerate(zip(read.index, scope[read.tensor].shape, strict=True)):
                outside = self.prover.outside(index, extent, extents, context)
                if outside:
                    where = f"{read.tensor} axis {axis}, index {affine_text(index)}"
                    self.fail("bounds", f"{where} in 0..{extent - 1} wherever the guard holds", outside)

    def folds(self, node: Statement) -> None:
        reduction, scan = node.reduction, node.scan
        if reduction is not None and scan is not None:
            self.fail("fold", "a reduction or a scan", "both")
        if reduction is not None:
            if reduction.kind not in REDUCTIONS:
                self.fail("fold", f"a reduction ({', '.join(REDUCTIONS)})", reduction.kind)
            if reduction.kind in ("argmax", "argmin") and len(reduction.dims) != 1:
                self.fail("fold", f"one dimension of {reduction.kind}", len(reduction.dims))
        if scan is not None:
            if scan.kind not in SCANS:
                self.fail("fold", f"a scan ({', '.join(SCANS)})", scan.kind)
            if all(d.name != scan.dim for d in node.dims):
                self.fail("fold", "a dimension of the statement", scan.dim)
        kind = reduction.kind if reduction else scan.kind if scan else ""
        if kind in ("argmax", "argmin") and node.dtype != "i64":
            self.fail("dtype", f"i64 for {kind}", node.dtype)

    def constraints(self, constraints: Iterable[Constraint], extents: Mapping[str, int]) -> bool:
        known = [self.names(c.expr, extents) for c in constraints]
        return all(known)

    def names(self, expr: Affine, extents: Mapping[str, int]) -> bool:
        missing = sorted(expr.names - extents.keys())
        if missing:
            self.fail(
                "unknown-name", f"a dimension or loop index ({', '.join(extents) or 'none is in scope'})", missing[0]
            )
            return False
        largest = _largest(expr, extents)
        if largest >= _INTEGERS:
            self.fail("limit", "index expressions and conditions whose parts stay below 2**62", largest)
        return largest < _INTEGERS

    def body(self, expr: Expr, extents: Mapping[str, int], scope: Mapping[str, TensorType]) -> bool:
        match expr:
            case Read():
                kind = self.lookup(scope, expr.tensor)
                known = [self.names(index, extents) for index in expr.index]
                if kind is not None and len(kind.shape) != len(expr.index):
                    self.fail("rank", f"{len(kind.shape)} indices of {expr.tensor}{list(kind.shape)}", len(expr.index))
                    return False
                return all(known) and kind is not None
            case Literal():
                return True
            case IndexValue():
                return self.names(expr.expr, extents)
            case Select():
                ok = self.constraints(expr.condition, extents)
                then = self.body(expr.then, extents, scope)
                return self.body(expr.otherwise, extents, scope) and then and ok
            case Apply():
                spec = SCALAR_OPS.get(expr.op)
                if spec is None:
                    self.fail("unknown-function", "a scalar operation of the catalogue", expr.op)
                elif spec.arity != len(expr.args):
                    self.fail("arity", f"{spec.arity} arguments of {expr.op}", len(expr.args))
                if expr.op == "cast" and expr.dtype not in DTYPE_BITS:
                    self.fail("dtype", f"a dtype ({', '.join(DTYPE_BITS)})", expr.dtype or "none")
                elif expr.op != "cast" and expr.dtype:
                    self.fail("dtype", f"no dtype on {expr.op}", expr.dtype)
                valid = [self.body(argument, extents, scope) for argument in expr.args]
                return all(valid)


def _largest(expr: Affine, extents: Mapping[str, int]) -> int:
    """No part of the expression is larger than this, wherever it is evaluated."""
    total = abs(expr.constant)
    for atom, factor in expr.terms:
        match atom:
            case str():
                part = max(0, extents[atom] - 1)
            case FloorDiv():
                part = max(atom.divisor, _largest(atom.operand, extents))
            case Mod():
                part = max(atom.divisor, _largest(atom.operand, extents))
        total += max(1, abs(factor)) * max(1, part)
    return total


def _describe(kind: TensorType) -> str:
    return f"{kind.dtype}{list(kind.shape)}"
