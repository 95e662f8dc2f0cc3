"""What is translated: a source text, the arrays it takes with their symbols, and what it is known to give."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from sollens.analysis.execute.storage import Array, store, stored_dtype

_MOST_GOLDEN_BYTES = 512 * 2**20
_MOST_ARRAYS = 200
# Arrays of a golden file that are neither an argument nor an output.
_CHECK = "check."
_PARAMETER = "parameter."
_KINDS = "biufc"


class BadGolden(ValueError):
    """Golden data that cannot be used; the text says what was expected and found."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that the source takes. `dims` are its extents as the pragma writes them, over the task's symbols."""

    name: str
    dtype: str
    dims: tuple[str, ...]

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The extents at some sizes of the symbols; raises ValueError."""
        return tuple(_extent(d, sizes) for d in self.dims)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(self.dims)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run of the original: symbols, inputs by name, outputs in the source's order, other tensors that are known.

    An output that nobody named is called by its position, "result 0". `about` says where the data come from.
    """

    sizes: Mapping[str, int]
    inputs: Mapping[str, Array]
    outputs: tuple[tuple[str, Array], ...]
    checks: Mapping[str, Array] = field(default_factory=dict[str, Array])
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A translation to make. `symbols` have the full sizes; `line` is where the source starts in the file at `path`."""

    name: str
    source: str
    language: str
    arguments: tuple[Argument, ...]
    symbols: Mapping[str, int]
    path: str = ""
    line: int = 1
    case: Case | None = None
    notes: str = ""


def small_sizes(symbols: Mapping[str, int]) -> dict[str, int]:
    """Small sizes, all different so that a swapped index shows, with the full ones' remainders modulo a power of two.

    >>> small_sizes({"T": 512, "B": 8, "D": 1024, "N": 1027})
    {'T': 16, 'B': 8, 'D': 24, 'N': 11}
    """
    large = [name for name, value in symbols.items() if value > 8]
    step = {1: 1024, 2: 32}.get(len(large), 8)
    sizes = {name: value for name, value in symbols.items() if value <= 8}
    for name in large:
        size = min(symbols[name], step + symbols[name] % step)
        while size in sizes.values() and size + step <= symbols[name]:
            size += step
        sizes[name] = size
    return {name: sizes[name] for name in symbols}


def random_inputs(arguments: tuple[Argument, ...], sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Seeded values: signed floats, integers that index every axis, both truth values.

    Integers stay below the smallest extent, so that they are positions wherever they are used as such.
    """
    generator = np.random.default_rng(seed)
    smallest = min([n for a in arguments for n in a.shape(sizes) if n > 0], default=1)
    inputs: dict[str, Array] = {}
    for argument in arguments:
        shape, dtype = argument.shape(sizes), stored_dtype(argument.dtype)
        if dtype.kind in "iu":
            inputs[argument.name] = generator.integers(0, max(2, smallest), shape).astype(dtype)
        elif dtype.kind == "b":
            inputs[argument.name] = generator.integers(0, 2, shape).astype(np.bool_)
        else:
            values = generator.normal(size=shape)
            if dtype.kind == "c":
                values = values + 1j * generator.normal(size=shape)
            inputs[argument.name] = store(np.asarray(values), argument.dtype)
    return inputs


def read_npz(path: Path, arguments: tuple[Argument, ...], symbols: Mapping[str, int]) -> Case:
    """The case in a NumPy archive; raises BadGolden. Nothing in it is unpickled.

    Arrays named as an argument are inputs, `parameter.NAME` further inputs, `check.NAME` intermediates under the name
    that the program should give them; all others are outputs, in the archive's order.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        total = sum(entry.file_size for entry in entries)
        if len(entries) > _MOST_ARRAYS or total > _MOST_GOLDEN_BYTES:
            limit = f"at most {_MOST_ARRAYS} arrays and {_MOST_GOLDEN_BYTES >> 20} MiB"
            raise BadGolden(f"{path.name}: expected {limit}, found {len(entries)} and {total >> 20} MiB")
        with np.load(path, allow_pickle=False) as stored:
            arrays: dict[str, Array] = {str(name): np.asarray(stored[name]) for name in stored.files}
    except BadGolden:
        raise
    except FileNotFoundError:
        raise BadGolden(f"expected golden data at {path}, found no such file") from None
    except Exception as error:  # zip, header and decompression errors have no common base
        what = "expected an archive of plain arrays as np.savez writes it"
        raise BadGolden(f"{path.name}: {what}, found: {error}") from None
    return case_of(arrays, arguments, symbols, path.name)


def case_of(
    arrays: Mapping[str, Array], arguments: tuple[Argument, ...], symbols: Mapping[str, int], about: str
) -> Case:
    """The case in arrays by name; raises BadGolden."""
    wrong = [name for name, value in arrays.items() if value.dtype.kind not in _KINDS]
    if wrong:
        raise BadGolden(f"{about}: expected arrays of numbers, found {wrong[0]} of dtype {arrays[wrong[0]].dtype}")
    missing = [a.name for a in arguments if a.name not in arrays]
    if missing:
        raise BadGolden(f"{about}: expected an array for every argument, found none named {', '.join(missing)}")
    by_name = {a.name: a for a in arguments}
    inputs = {name: arrays[name] for name in by_name}
    sizes = sizes_of(arguments, {n: a.shape for n, a in inputs.items()}, symbols, about)
    outputs: list[tuple[str, Array]] = []
    checks: dict[str, Array] = {}
    for name, value in arrays.items():
        if name.startswith(_PARAMETER):
            inputs[name.removeprefix(_PARAMETER)] = value
        elif name.startswith(_CHECK):
            checks[name.removeprefix(_CHECK)] = value
        elif name not in by_name:
            outputs.append((name, value))
    if not outputs:
        raise BadGolden(f"{about}: expected at least one output (an array that is no argument), found none")
    if not is_telling([value for _, value in outputs]):
        raise BadGolden(f"{about}: expected outputs that vary, found one value everywhere: nothing could be told by it")
    return Case(sizes=sizes, inputs=inputs, outputs=tuple(outputs), checks=checks, about=about)


def is_telling(outputs: Sequence[Array]) -> bool:
    """Whether a wrong program could be told from a right one: some output has more than one value."""
    return any(value.size == 1 or (value.size > 1 and not (value == value.flat[0]).all()) for value in outputs)


def sizes_of(
    arguments: tuple[Argument, ...], shapes: Mapping[str, tuple[int, ...]], symbols: Mapping[str, int], about: str
) -> dict[str, int]:
    """The symbols' sizes at which the arguments have these shapes; raises BadGolden."""
    sizes = dict(symbols)
    for argument in arguments:
        shape = shapes[argument.name]
        if len(shape) != len(argument.dims):
            raise BadGolden(f"{about}: expected {argument}, found {argument.name} of shape {list(shape)}")
        sizes.update((dim, extent) for dim, extent in zip(argument.dims, shape, strict=True) if dim in symbols)
    for argument in arguments:
        expected, found = argument.shape(sizes), shapes[argument.name]
        if expected != found:
            at = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise BadGolden(f"{about}: expected {argument.name} of shape {list(expected)} ({at}), found {list(found)}")
    return sizes


def elements(case: Case) -> int:
    """Elements of all arrays of a case."""
    return sum(prod(a.shape) for a in (*case.inputs.values(), *(a for _, a in case.outputs)))


def _extent(text: str, sizes: Mapping[str, int]) -> int:
    from sollens.analysis.source.pragma import PragmaError, integer

    try:
        return integer(text, sizes)
    except PragmaError as error:
        raise ValueError(f"extent {text!r}: {error}") from None
