"""Is a program what it should be? Parsed, verified, run on the case's inputs and compared; the first problem is told.

What a model wrote is data: it goes through the parser, the verifier and our executors within limits, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, get_args

from sollens.analysis.execute.compiled.estimate import Stopped
from sollens.analysis.execute.errors import MissingInput, NotExecutable, OutOfBounds, TooLarge
from sollens.analysis.execute.storage import Array, stored_dtype
from sollens.analysis.ir.nodes import Branch, Call, Loop, Node, Program, Statement, walk
from sollens.analysis.ir.tensors import TensorType, points, tensor_types
from sollens.analysis.ir.text_parse import parse
from sollens.analysis.ir.text_tokens import UNTRUSTED_LIMITS
from sollens.analysis.ir.verify import WorkLimits, verify
from sollens.analysis.llm import tell
from sollens.analysis.llm.extract import extract
from sollens.analysis.llm.task import Argument, Case, Task, random_inputs, small_sizes
from sollens.analysis.validate.compare import Difference, difference, roundings
from sollens.analysis.validate.execute import execute
from sollens.analysis.validate.widen import widen

Stage = Literal["empty", "text", "interface", "meaning", "run", "results", "unchecked", "agrees"]
_STAGES: tuple[Stage, ...] = get_args(Stage)
# A program that a model writes has tens of statements; these keep a hostile one cheap.
_FULL = WorkLimits(nodes=2_000, problems=8, seconds=3.0)
_TWIN = WorkLimits(points=2 * 10**8, elements=2 * 10**7, nodes=2_000, problems=8, seconds=3.0)
_INTERPRETED_POINTS = 4_000_000
_MOST_STEPS = 20_000
_MOST_OPERATIONS = 2 * 10**9
_MOST_ELEMENTS = 5 * 10**7
_REFUSED_CALLS = {
    "opaque": "what the operator computes, as statements: an opaque call has no work and cannot be checked",
    "random": "no random numbers: declare the values that the source draws as an input",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The first tensor that is not the expected one."""

    tensor: str
    statement: str
    difference: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How far a program came. `problem` is written for the model; empty where nothing is wrong with what was checked.

    `agreeing`: names of tensors that were compared and agree. `program` has the full sizes; None before it verified.
    """

    stage: Stage
    problem: str = ""
    text: str = ""
    program: Program | None = None
    agreeing: tuple[str, ...] = ()
    found: Found | None = None
    max_rel_error: float | None = None
    sizes: Mapping[str, int] | None = None

    @property
    def rank(self) -> tuple[int, int]:
        """Better ones are larger."""
        return _STAGES.index(self.stage), len(self.agreeing)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to correct."""
        return self.stage in ("agrees", "unchecked")


def judge(reply: str, task: Task, stop: Callable[[], bool] | None = None) -> Judgement:
    """How far the program in a reply is what `task` asks for; never raises on any reply."""
    text = extract(reply)
    if text is None:
        return Judgement(stage="empty", problem=tell.no_program())
    try:
        return _judge(text, task, stop)
    except (RecursionError, MemoryError) as error:
        return Judgement(stage="text", text=text, problem=f"expected a smaller program, found {type(error).__name__}")


def _judge(text: str, task: Task, stop: Callable[[], bool] | None) -> Judgement:
    program, problems = parse(text, limits=UNTRUSTED_LIMITS)
    if program is None:
        return Judgement(stage="text", text=text, problem=tell.text_problems(problems))
    wrong = list(_interface(program, task))
    if wrong:
        return Judgement(stage="interface", text=text, problem=tell.interface(wrong))
    meaning = verify(program, _FULL)
    if meaning:
        return Judgement(stage="meaning", text=text, problem=tell.meaning(meaning, text))
    sizes = dict(task.case.sizes) if task.case else small_sizes(task.symbols)
    bound = {name: size for name, size in sizes.items() if name in dict(program.symbols)}
    twin, problems = parse(text, bind=bound, limits=UNTRUSTED_LIMITS)
    if twin is None:
        return Judgement(stage="text", text=text, problem=tell.text_problems(problems, bound))
    meaning = verify(twin, _TWIN)
    if meaning:
        return Judgement(stage="meaning", text=text, problem=tell.meaning(meaning, text, bound))
    good = Judgement(stage="run", text=text, program=program, sizes=sizes)
    too_much = _too_much(twin)
    if too_much:
        return replace(good, problem=tell.too_much(too_much, bound))
    case = task.case
    inputs = dict(case.inputs) if case else random_inputs(task.arguments, sizes)
    inputs |= random_inputs(_undescribed(twin, inputs), {})
    try:
        return _compared(good, twin, case, inputs, stop)
    except Stopped:
        return replace(good, problem="the time that a check may take was over before the program had run")
    except (NotExecutable, OutOfBounds, MissingInput, TooLarge) as error:
        return replace(good, problem=tell.run_failed(str(error), bound))


def _undescribed(program: Program, known: Mapping[str, Array]) -> tuple[Argument, ...]:
    """Parameters that the program found in its source and the task does not list."""
    rest = (d for d in program.declarations if d.name not in known)
    return tuple(Argument(d.name, d.dtype, tuple(map(str, d.shape))) for d in rest)


def _interface(program: Program, task: Task) -> Iterable[str]:
    """What the program's border has other than the task's."""
    declared = {d.name: d for d in program.declarations}
    symbols = dict(program.symbols)
    for name, size in task.symbols.items():
        if symbols.get(name) != size:
            yield f"{name}={size} among the symbols of the header, found {symbols.get(name, 'no such symbol')}"
    for argument in task.arguments:
        found = declared.pop(argument.name, None)
        shape = argument.shape(task.symbols)
        if found is None:
            yield f"`input {argument}`, found no declaration of {argument.name}"
        elif (found.dtype, found.shape) != (argument.dtype, shape):
            yield f"`input {argument}` (shape {list(shape)}), found {found.dtype}{list(found.shape)}"
        elif found.defined_by is not None:
            yield f"`input {argument}` without `= {found.defined_by}`"
    known = set(task.case.inputs) if task.case else set[str]()
    for name, found in declared.items():
        if name in known or (task.case is None and found.role == "parameter" and found.defined_by is None):
            continue
        names = ", ".join(a.name for a in task.arguments)
        yield f"declarations of {names or 'nothing'} alone, found {found.role} {name}: compute it by statements"
    for node in walk((*program.setup, *program.nodes)):
        if isinstance(node, Call) and node.op in _REFUSED_CALLS:
            yield f"{_REFUSED_CALLS[node.op]}; found {node.op}(...) for {node.results[0].name}"
        if isinstance(node, Loop) and node.unknown_trips:
            yield f"a loop over {node.index.name} with a known number of trips, found unknown_trips"
    if task.case is not None and len(program.outputs) != len(task.case.outputs):
        named = ", ".join(name for name, _ in task.case.outputs)
        yield f"{len(task.case.outputs)} outputs ({named}), found {len(program.outputs)}"


def _too_much(program: Program) -> str:
    """Why running a program would take too long; empty where it would not."""
    steps = _steps((*program.setup, *program.nodes))
    if steps > _MOST_STEPS:
        return f"at most {_MOST_STEPS} executions of statements, found {steps}: a loop is only for carried values"
    types = tensor_types(program)
    elements = sum(kind.size for kind in types.values())
    if elements > _MOST_ELEMENTS:
        return f"at most {_MOST_ELEMENTS} elements in all tensors together, found {elements}"
    operations = _operations((*program.setup, *program.nodes), types)
    if operations > _MOST_OPERATIONS:
        return f"at most {_MOST_OPERATIONS} operations, found {operations}"
    return ""


def _steps(nodes: Iterable[Node]) -> int:
    total = 0
    for node in nodes:
        match node:
            case Loop():
                total += node.index.extent * max(1, _steps(node.body))
            case Branch():
                total += 1 + _steps(node.then) + _steps(node.otherwise)
            case _:
                total += 1
    return total


def _operations(nodes: Iterable[Node], types: Mapping[str, TensorType]) -> int:
    """Points times the nodes of their bodies; library calls by what they may take."""
    total = 0
    for node in nodes:
        match node:
            case Statement():
                total += max(1, prod(d.extent for d in node.domain)) * _size(node.body)
            case Call():
                sizes = [types[o].size for o in node.operands] + [prod(r.shape) for r in node.results]
                longest = max((n for o in node.operands for n in types[o].shape), default=1)
                total += 64 * sum(sizes) + (sum(sizes) * longest * 8 if node.op == "linalg" else 0)
            case Loop():
                total += node.index.extent * _operations(node.body, types)
            case Branch():
                total += _operations(node.then, types) + _operations(node.otherwise, types)
    return total


def _size(body: object) -> int:
    count, left = 0, [body]
    while left:
        count += 1
        at = left.pop()
        left += [*getattr(at, "args", ()), *(getattr(at, n) for n in ("then", "otherwise") if hasattr(at, n))]
    return count


def _run(
    program: Program, inputs: Mapping[str, Array], want: list[str], stop: Callable[[], bool] | None
) -> Mapping[str, Array]:
    small = points((*program.setup, *program.nodes)) + sum(a.size for a in inputs.values()) <= _INTERPRETED_POINTS
    return execute(
        program, inputs, want, executor="reference" if small else "compiled", limit_points=_TWIN.points, stop=stop
    )


def _compared(
    good: Judgement, twin: Program, case: Case | None, inputs: Mapping[str, Array], stop: Callable[[], bool] | None
) -> Judgement:
    types = tensor_types(twin)
    visible = {d.name for d in twin.declarations} | {n.name for n in twin.nodes if isinstance(n, Statement)}
    checks: dict[str, Array] = {n: a for n, a in case.checks.items() if n in visible} if case else {}
    want = list(dict.fromkeys([*checks, *twin.outputs]))
    values = _run(twin, inputs, want, stop)
    if case is None:
        return replace(good, stage="unchecked")
    outputs = _ordered(twin, case)
    dtypes = _dtypes(twin, inputs, [*checks.values(), *(a for _, a in outputs)])
    rounding = roundings(twin, dtypes)
    pairs: list[tuple[str, Array, str]] = [
        *((n, a, n) for n, a in checks.items()),
        *((n, a, m) for n, (m, a) in zip(twin.outputs, outputs, strict=True)),
    ]
    exact: Mapping[str, Array] | None = None
    agreeing: list[str] = []
    worst = 0.0
    for name, expected, called in pairs:
        found = values[name]
        kind = _kind_problem(types[name].dtype, expected)
        if kind:
            return replace(good, stage="results", agreeing=tuple(agreeing), problem=tell.kind(name, called, kind))
        error, differs = difference(found, expected, rounding[name])
        if differs is not None and error < 1.0:  # ill-conditioned, or wrong?
            exact = exact or _run(widen(twin, dtypes), inputs, want, stop)
            error, differs = difference(found, expected, rounding[name], exact[name])
        if differs is not None:
            told = tell.difference(twin, name, called, found, expected, differs, agreeing, good.sizes or {})
            first = Found(tensor=name, statement=tell.statement_of(twin, name), difference=differs)
            return replace(
                good, stage="results", agreeing=tuple(agreeing), problem=told, found=first, max_rel_error=error
            )
        worst = max(worst, error)
        agreeing.append(name)
    return replace(good, stage="agrees", agreeing=tuple(agreeing), max_rel_error=worst)


def _ordered(program: Program, case: Case) -> list[tuple[str, Array]]:
    """The case's outputs in the program's order: by name where every name is known, else as they are."""
    by_name = dict(case.outputs)
    if set(program.outputs) == set(by_name):
        return [(name, by_name[name]) for name in program.outputs]
    return list(case.outputs)


def _dtypes(program: Program, inputs: Mapping[str, Array], golden: Iterable[Array]) -> frozenset[str]:
    """The dtypes that the original has: no rounding to another one excuses a difference."""
    names = {stored_dtype(n): n for n in ("f16", "f32", "f64", "c64", "c128")}
    own = {d.dtype for d in program.declarations if d.name in inputs}
    return frozenset(own | {names[a.dtype] for a in golden if a.dtype in names})


def _kind_problem(dtype: str, expected: Array) -> str:
    """What is wrong with an output's dtype. NumPy's own defaults, f64 and i64, may be narrower in the source."""
    mine, theirs = stored_dtype(dtype), expected.dtype
    same = mine.kind == theirs.kind or {mine.kind, theirs.kind} <= {"i", "u"}
    if same and (mine.itemsize == theirs.itemsize or (theirs.itemsize == 8 and theirs.kind in "if")):
        return ""
    return f"dtype {theirs}, found {dtype}"
