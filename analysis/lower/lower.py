"""The lowering driver: a recorded trace becomes an IR program.

Every operator goes through its rule (`registry.py`); one without a rule, or whose rule fails or disagrees with what
the trace recorded,
becomes an `opaque` call and a `Partial` that says why. In-place and `out=` variants use the functional rule and then
write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sollens.analysis.ir.calls import CALLS
from sollens.analysis.ir.nodes import (
    NO_SOURCE,
    ROLES,
    Call,
    Declaration,
    Node,
    Program,
    Source,
)
from sollens.analysis.lower.aliasing import Aliases, NotInvertible
from sollens.analysis.lower.builder import Builder, Choices, OpCall, Value
from sollens.analysis.lower.decoding import decode, decode_array, is_contiguous, output_slots, tensor_ids
from sollens.analysis.lower.dependence import reachable, setup_operators, used_tensors
from sollens.analysis.lower.registry import Rule, find
from sollens.analysis.trace.schema import Block, Op, Problem, Tensor, Trace, numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """An operator whose work is not known, and why."""

    operator: str
    reason: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A program and what is known about it.

    `values`: contents of declared tensors. `names`: IR name of each trace tensor where it was first defined.
    `returned`: IR names of the
    tensors that the target returned, in order, as they are at its end; `program.outputs` holds those (each once, but
    an external tensor
    that was updated in place only by the parts written) and what was written to other external tensors. `choices`: what
    rules chose by sizes.
    """

    program: Program
    values: Mapping[str, np.ndarray[Any, Any]]
    partial: tuple[Partial, ...]
    names: Mapping[int, str]
    returned: tuple[str, ...]
    problems: tuple[Problem, ...]
    choices: Choices = field(default_factory=dict[int, tuple[object, ...]])


def lower(trace: Trace, like: Lowered | None = None) -> Lowered:
    """The IR program of a trace; never raises on an operator it does not understand.

    Of a twin, `like` is the full program: where its sizes decided between two forms, the twin takes the same.
    """
    return _Lowering(trace, like.choices if like is not None else None).run()


# In-place operators that change how a tensor sees its memory, and no element.
_RESHAPED_IN_PLACE = frozenset(
    f"{n}_" for n in ("as_strided", "squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "detach")
)


class RuleMismatch(ValueError):
    """A rule's result is not what the trace recorded."""


class MissingRule(LookupError):
    """No rule is registered for an operator."""


@dataclass(frozen=True, slots=True)
class _Sites:
    """Where an operator's results go: one slot per output that is not written in place, then one per tensor that is."""

    slots: tuple[int | None, ...]
    fresh: frozenset[int]
    mutated_from: int
    arguments: tuple[int, ...]


class _Scope:
    """Lowers a list of operators: the program's or the setup's."""

    def __init__(self, lowering: _Lowering, ops: Sequence[Op], *, setup: bool) -> None:
        self.lowering, self.setup = lowering, setup
        self.builder = lowering.builder
        self.aliases = Aliases(self.builder, lowering.tensors, lowering.declare)
        self.tainted: set[int] = set()  # storages whose values are not known (setup only)
        self.nodes = self.builder.nodes = []
        for op in ops:
            self._lower(op)
        self.builder.source = NO_SOURCE

    def _lower(self, op: Op) -> None:
        index = -1 if self.setup else op.group if op.group >= 0 else self.lowering.numbers[id(op)]
        if op.mutates and _name(op) in _RESHAPED_IN_PLACE:
            op = replace(op, target=op.target.replace("_.", ".", 1), mutates=[], view=True)
        sites = self._sites(op)
        if not op.mutates and all(s is None for s in sites.slots):
            return
        self.builder.source = source = self.lowering.source(index, op)
        nodes = self.builder.nodes  # the block's, inside a loop
        mark = len(nodes)
        unknown = False
        try:
            values = self._apply_rule(op, sites)
            self._commit(op, sites, values, mark)
        except Exception as error:  # a rule's bug must not take the analysis down
            del nodes[mark:]
            unknown = True
            self._opaque(op, sites, source, error)
        if not self.setup and not unknown:
            self._report_unknown_costs(op, mark)
        if self.setup:
            self._taint(op, sites, unknown or _makes_up_values(nodes[mark:]))

    def _report_unknown_costs(self, op: Op, mark: int) -> None:
        for node in self.builder.nodes[mark:]:
            if isinstance(node, Call) and not CALLS[node.op].known:
                self.lowering.report(op, f"the work of a {node.op} routine is not counted", node.source)

    def _sites(self, op: Op) -> _Sites:
        tensors, mutates = self.lowering.tensors, op.mutates
        arguments = tuple(t for t in dict.fromkeys(tensor_ids(op.args, op.kwargs)) if t in tensors)
        outputs = [s for s in output_slots(op.outputs) if s not in mutates]
        fresh = frozenset(s for s in outputs if s is not None and s not in arguments and not self.aliases.known(s))
        slots = tuple(s if s in tensors else None for s in (*outputs, *mutates))
        return _Sites(slots, fresh, len(outputs), arguments)

    def _apply_rule(self, op: Op, sites: _Sites) -> list[Value | None]:
        target, rule = _find_rule(op)
        if rule is None:
            raise MissingRule(f"no lowering rule for {op.target}")
        resolve = self._storage_value if op.target.startswith("aten.as_strided.") else self.aliases.read
        args = tuple(decode(a, resolve) for a in op.args)
        kwargs = {k: decode(v, resolve) for k, v in op.kwargs.items() if k == "self" or not _is_written(v, op)}
        outputs = tuple(None if s is None else self.lowering.spec(s) for s in sites.slots)
        used = tuple(s in self.lowering.used for s in sites.slots)
        blocks = tuple(partial(self._block, block) for block in op.blocks)
        call = OpCall(target, args, kwargs, outputs, self.lowering.trace.settings, used, blocks)
        results = rule(self.builder, call)
        values: list[Value | None] = [results] if isinstance(results, Value) else list(results)
        wanted = sites.mutated_from or len(sites.slots)
        if len(values) < wanted and any(s in sites.fresh for s in sites.slots[len(values) : wanted]):
            raise RuleMismatch(f"expected {wanted} results, found {len(values)}")
        for spec, value in zip(outputs, values, strict=False):
            if value is not None and spec is not None and (value.dtype, value.shape) != spec:
                found, recorded = f"{value.dtype}{list(value.shape)}", f"{spec[0]}{list(spec[1])}"
                raise RuleMismatch(f"the rule gives {found}, the trace recorded {recorded}")
        return values

    def _block(self, block: Block, inputs: Sequence[Value]) -> list[Any]:
        """Lower a block's operators here; its results."""
        for tensor, value in zip(block.inputs, inputs, strict=True):
            self.aliases.define(tensor, value, (), ())
        for op in block.ops:
            self._lower(op)
        return [decode(o, self.aliases.read) for o in block.outputs]

    def _commit(self, op: Op, sites: _Sites, values: list[Value | None], mark: int) -> None:
        emitted = self.builder.nodes[mark:]
        for position, tensor in enumerate(sites.slots):
            value = values[position] if position < len(values) else None
            if tensor is None:
                continue
            if position >= sites.mutated_from:
                if value is not None:
                    self.aliases.write(tensor, value)
                elif not self.setup:
                    self.lowering.report(op, "its in-place update of an argument is not modelled", self.builder.source)
            elif tensor in sites.fresh:
                if value is None and tensor in self.lowering.used:
                    raise RuleMismatch(f"the rule gives no result {position}, the trace recorded one")
                if value is not None:
                    self.aliases.define(tensor, value, sites.arguments, emitted)
                    self.lowering.names.setdefault(tensor, value.name)

    def _opaque(self, op: Op, sites: _Sites, source: Source, error: Exception) -> None:
        if not self.setup:
            self.lowering.report(op, _reason(error), source)
        aliases = self.aliases
        targets = [
            (s, position >= sites.mutated_from)
            for position, s in enumerate(sites.slots)
            if s is not None and (s in sites.fresh or position >= sites.mutated_from)
        ]
        operands = [aliases.read(t) for t in sites.arguments]
        specs = [self.lowering.spec(aliases.root(s) if written else s) for s, written in targets]
        results = self.builder.call("opaque", operands, specs, _name(op), operator=op.target)
        for (tensor, written), value in zip(targets, results, strict=True):
            if written:
                aliases.replace(tensor, value)
            else:
                aliases.define(tensor, value, (), ())
                self.lowering.names.setdefault(tensor, value.name)

    def _storage_value(self, tensor: int) -> Value:
        """as_strided ignores its argument's own strides: it reads the memory, which is the root when that is
        contiguous."""
        root = self.aliases.root(tensor)
        if not is_contiguous(self.lowering.tensors[root]):
            raise NotInvertible("as_strided over memory that is not contiguous")
        return self.aliases.read(root)

    def _taint(self, op: Op, sites: _Sites, unknown: bool) -> None:
        tensors = self.lowering.tensors
        touched = {tensors[s].storage for s in sites.slots if s is not None}
        whole = all(self.aliases.root(t) == t for t in op.mutates)
        replaced = whole and _name(op) in ("fill_", "zero_", "copy_")
        inputs = [t for t in sites.arguments if not (replaced and t in op.mutates)]
        if unknown or any(tensors[t].storage in self.tainted for t in inputs):
            self.tainted |= touched
        elif replaced:
            self.tainted -= touched


class _Lowering:
    def __init__(self, trace: Trace, followed: Choices | None) -> None:
        self.trace = trace
        self.tensors: Mapping[int, Tensor] = {t.id: t for t in trace.tensors}
        self.builder = Builder(followed)
        self.declared: dict[int, Value] = {}
        self.names: dict[int, str] = {}
        self.used = used_tensors(trace)
        self.numbers = {id(op): number for number, op in enumerate(numbered(trace.ops))}
        self._by_memory: dict[tuple[Any, ...], int] = {}
        self._partial: list[Partial] = []
        self._problems: list[Problem] = []
        self._sources: dict[tuple[int, int], Source] = {}

    def run(self) -> Lowered:
        """Lower everything."""
        main = _Scope(self, self.trace.ops, setup=False)
        aliases = main.aliases
        ids = [t for t in tensor_ids(self.trace.outputs) if t in self.tensors]
        returned = [aliases.read(t) for t in ids]
        written = {t: w for t, w in aliases.writes.items() if t in self.declared}
        outputs = dict.fromkeys(v.name for t, v in zip(ids, returned, strict=True) if t not in written)
        outputs.update((w.value.name, None) for writes in written.values() for w in writes)
        setup, defined_by = self._setup(tuple(self.declared))
        unique = {v.name: (t, v) for t, v in reversed(self.declared.items())}
        declarations = tuple(self._declaration(t, v, defined_by.get(t)) for t, v in reversed(unique.values()))
        values = {v.name: a for t, v in unique.values() if (a := decode_array(self.tensors[t])) is not None}
        program = Program(
            name=_identifier(self.trace.name),
            declarations=declarations,
            nodes=tuple(main.nodes),
            outputs=tuple(outputs),
            setup=setup,
        )
        return Lowered(
            program=program,
            values=values,
            partial=tuple(self._partial),
            names=self.names,
            returned=tuple(v.name for v in returned),
            problems=tuple(self._problems),
            choices=self.builder.choices,
        )

    def spec(self, tensor: int) -> tuple[str, tuple[int, ...]]:
        """Recorded dtype and shape."""
        recorded = self.tensors[tensor]
        return recorded.dtype, tuple(recorded.shape)

    def declare(self, tensor: int) -> Value:
        """The external tensor; two that are the same memory seen the same way are one (tied weights)."""
        value = self.declared.get(tensor)
        if value is not None:
            return value
        recorded = self.tensors[tensor]
        if recorded.strides is not None:
            memory = (recorded.storage, recorded.dtype, recorded.offset, *recorded.shape, *recorded.strides)
            value = self.declared.get(self._by_memory.setdefault(memory, tensor))
        if value is None:
            name = self.builder.fresh(recorded.name or recorded.kind)
            value = Value(name, recorded.dtype, tuple(recorded.shape))
        self.declared[tensor] = value
        self.names[tensor] = value.name
        return value

    def source(self, index: int, op: Op) -> Source:
        """The source of an operator."""
        at = self._sources.get((op.span, op.module))
        if at is None:
            module = self.trace.modules[op.module].path if 0 <= op.module < len(self.trace.modules) else ""
            at = Source(module=module)
            if 0 <= op.span < len(self.trace.spans):
                s = self.trace.spans[op.span]
                at = Source(
                    file=s.file, line=s.line, column=s.column, end_line=s.end_line, end_column=s.end_column,
                    module=module
                )  # fmt: skip
            self._sources[op.span, op.module] = at
        return Source(
            op=index, operator=op.target, view=op.view, module=at.module, file=at.file,
            line=at.line, column=at.column, end_line=at.end_line, end_column=at.end_column,
        )  # fmt: skip

    def report(self, op: Op, reason: str, source: Source) -> None:
        """Record that an operator's work is not known."""
        self._partial.append(Partial(operator=op.target, reason=reason, source=source))

    def _declaration(self, tensor: int, value: Value, defined_by: str | None) -> Declaration:
        recorded = self.tensors[tensor]
        return Declaration(
            name=value.name,
            dtype=value.dtype,
            shape=value.shape,
            role=recorded.kind if recorded.kind in ROLES else "constant",
            label=recorded.name,
            defined_by=defined_by,
        )

    def _setup(self, used: Sequence[int]) -> tuple[tuple[Node, ...], dict[int, str]]:
        """Setup nodes that yield values of used external tensors, and which value defines which tensor."""
        produced = {t for op in self.trace.setup for t in (*tensor_ids(op.outputs), *op.mutates)}
        # Also of tensors whose values were sent: a mask's structure is seen in how it was built, at any size.
        wanted = [t for t in used if t in produced]
        if not wanted:
            return (), {}
        before = dict(self.declared)
        scope = _Scope(self, setup_operators(self.trace, self.tensors, wanted), setup=True)
        known = [t for t in wanted if self.tensors[t].storage not in scope.tainted and scope.aliases.known(t)]
        values = {t: scope.aliases.read(t).name for t in known}
        nodes, needed = reachable(scope.nodes, set(values.values()))
        own = {before[t].name for t in values}
        if not own.isdisjoint(needed):  # values that start from themselves: nothing is known
            values = {t: v for t, v in values.items() if before[t].name not in needed}
            nodes, needed = reachable(scope.nodes, set(values.values()))
        self.declared = {t: v for t, v in self.declared.items() if t in before or v.name in needed}
        return nodes, values


def _find_rule(op: Op) -> tuple[str, Rule | None]:
    """The rule of an operator; of its functional form when it writes in place."""
    namespace, _, rest = op.target.partition(".")
    name, _, overload = rest.partition(".")
    if op.mutates and name.endswith("_"):
        target = f"{namespace}.{name[:-1]}" + (f".{overload}" if overload else "")
        if (rule := find(target)) is not None:
            return target, rule
    return op.target, find(op.target)


def _name(op: Op) -> str:
    """ "add_" of "aten.add_.Tensor"."""
    return [*op.target.split("."), op.target][1]


def _is_written(argument: Any, op: Op) -> bool:
    return any(t in op.mutates for t in tensor_ids(argument))


def _makes_up_values(nodes: Sequence[Node]) -> bool:
    return any(isinstance(n, Call) and n.op in ("random", "opaque") for n in nodes)


def _reason(error: Exception) -> str:
    if isinstance(error, RuleMismatch | MissingRule | NotInvertible | NotImplementedError):
        return str(error)
    return f"its rule failed: {type(error).__name__}: {error}"


def _identifier(name: str) -> str:
    stem = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "program"
    return f"p{stem}" if stem[0].isdigit() else stem
