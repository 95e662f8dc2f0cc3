"""Problems in words that a model can act on: what was expected and found, where, in its own text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import NO_SOURCE, Program, Statement, defined, walk
from sollens.analysis.ir.text_print import node_text
from sollens.analysis.ir.text_tokens import TextProblem
from sollens.analysis.ir.verify import IrProblem
from sollens.analysis.validate.compare import Difference

_MOST = 5
_LONGEST = 3_000


def no_program() -> str:
    """A reply without a program."""
    return "expected one fenced block that starts with `program NAME(...)`, found none in your answer"


def text_problems(problems: Sequence[TextProblem], sizes: Mapping[str, int] | None = None) -> str:
    """Where the text does not follow the grammar."""
    return _cut(_at(sizes) + "The text does not parse:\n" + "\n".join(p.message for p in problems[:_MOST]))


def meaning(problems: Sequence[IrProblem], text: str, sizes: Mapping[str, int] | None = None) -> str:
    """What the verifier found, each with the line that defines the node."""
    told: list[str] = []
    lines = text.split("\n")
    for problem in problems[:_MOST]:
        line = next((line.strip() for line in lines if line.strip().startswith(problem.node)), "")
        told.append(problem.message + (f"\n    in: {line[:300]}" if line else ""))
    return _cut(_at(sizes) + "The program parses but means nothing yet:\n" + "\n".join(told))


def interface(wrong: Sequence[str]) -> str:
    """Where declarations, symbols or outputs are others than asked for."""
    return _cut("The program's border is not the source's:\n" + "\n".join(f"expected {one}" for one in wrong[:_MOST]))


def too_much(what: str, sizes: Mapping[str, int]) -> str:
    """A program that asks for too much work even at small sizes."""
    return f"{_at(sizes)}The program takes too long: expected {what}"


def run_failed(what: str, sizes: Mapping[str, int]) -> str:
    """A program that did not run."""
    return _cut(f"{_at(sizes)}The program verifies but did not run: {what}")


def kind(name: str, called: str, what: str) -> str:
    """An output of another dtype."""
    return f"{_named(name, called)}: expected {what}"


def difference(
    program: Program, name: str, called: str, found: Array, expected: Array, first: Difference,
    agreeing: Sequence[str], sizes: Mapping[str, int],
) -> str:  # fmt: skip
    """The first element that differs, what the tensors have in common, and what already agrees."""
    told = [_at(sizes) + f"{_named(name, called)} is not what the source gives."]
    statement = statement_of(program, name)
    if statement:
        told.append(f"    {statement}")
    if found.shape != expected.shape:
        told.append(f"expected shape {list(expected.shape)}, found {list(found.shape)}")
    else:
        at = ", ".join(map(str, first.index))
        told.append(f"first differing element: {name}[{at}]: expected {first.expected}, found {first.found}")
        told += _shared(found, expected)
    told.append(f"tensors that agree: {', '.join(agreeing)}" if agreeing else "no other tensor was compared before it")
    return _cut("\n".join(told))


def statement_of(program: Program, name: str) -> str:
    """The text of the statement that defines a tensor."""
    for node in walk((*program.setup, *program.nodes)):
        if name in defined(node) and isinstance(node, Statement):
            return node_text(replace(node, source=NO_SOURCE)).strip()
    return ""


def _shared(found: Array, expected: Array) -> Iterable[str]:
    """Patterns that point at a cause: how many elements, where they lie, a factor, an offset, swapped axes."""
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        wrong = ~np.isclose(a, b, rtol=1e-3, atol=1e-6, equal_nan=True)
        count = int(wrong.sum())
        if count:
            yield f"{count} of {wrong.size} elements differ"
        if count and count < wrong.size and wrong.ndim:
            places = np.argwhere(wrong)
            box = ", ".join(f"{low}..{high}" for low, high in zip(places.min(0), places.max(0), strict=True))
            yield f"all of them lie in [{box}] of {list(wrong.shape)}"
        finite = np.isfinite(a) & np.isfinite(b)
        if bool((~np.isfinite(a) & np.isfinite(b)).any()):
            yield f"{int((~np.isfinite(a) & np.isfinite(b)).sum())} elements are nan or infinite where they should not"
        usable = wrong & finite & (np.abs(b) > 1e-9)
        if int(usable.sum()) >= 3:
            ratio = a[usable] / b[usable]
            if np.allclose(ratio, ratio.flat[0], rtol=1e-3):
                yield f"found = {complex(ratio.flat[0]).real:.6g} x expected, wherever they differ"
            elif np.allclose((a - b)[usable], (a - b)[usable].flat[0], rtol=1e-3):
                yield f"found = expected + {complex((a - b)[usable].flat[0]).real:.6g}, wherever they differ"
        if 1 < a.ndim <= 4:
            for order in permutations(range(a.ndim)):
                if order == tuple(range(a.ndim)):
                    continue
                turned = np.transpose(a, order)
                if turned.shape == b.shape and np.allclose(turned, b, rtol=1e-3, atol=1e-6, equal_nan=True):
                    yield f"with its axes in the order {list(order)} it would agree"
                    break
        if a.ndim and not np.isnan(a).any() and count:
            for axis in range(a.ndim):
                if np.allclose(np.flip(a, axis), b, rtol=1e-3, atol=1e-6):
                    yield f"with axis {axis} reversed it would agree"
                    break


def _named(name: str, called: str) -> str:
    return f"output {name}" if not called or called == name else f"output {name} (the source's {called})"


def _at(sizes: Mapping[str, int] | None) -> str:
    return f"At {', '.join(f'{n}={s}' for n, s in sizes.items())}: " if sizes else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."
