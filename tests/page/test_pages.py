"""Pages load nothing, escape everything, and put dots and roofs where the numbers say."""

import json
import math
import re

import msgspec
import pytest

from sollens.analysis.page.graph_page import Graph, decode_graphs, graph_page
from sollens.analysis.page.report_page import report_page
from sollens.analysis.page.roofline import roof_of
from sollens.analysis.page.scale import LogAxis
from sollens.analysis.report import (
    FileReport,
    ModuleRow,
    Problem,
    Resource,
    TargetReport,
    Times,
    Traffic,
    Validation,
)
from sollens.hardware import catalog

H100 = catalog.load("h100-sxm")
EVIL = "<script>alert(1)</script>"


def module(path: str, *, macs: int, count: int, time_s: float, **more: object) -> ModuleRow:
    values = {"line": 7, "type": "Linear", "limit": "memory", "unfused_s": 2 * time_s, **more}
    return ModuleRow(path=path, count=1, macs=macs, bytes=count, time_s=time_s, **values)  # pyright: ignore


def target(**changes: object) -> TargetReport:
    whole = TargetReport(
        name="Model", line=3, frontend="torch", macs=10**12, macs_by_pipe={"tf32": 10**12}, vector_ops=0,
        flop=2 * 10**12, bytes=Traffic(compulsory=10**9, cache_aware=10**9, unfused=4 * 10**9),
        time_s=Times(fused=4.05e-3, cache_aware=4.05e-3, unfused=8.1e-3), limit="matmul:tf32", confidence="high",
        partial=[], validation=Validation(status="validated"), inverse=None, lines=[], findings=[], stage_s={},
        modules=[module("", macs=1, count=1, time_s=1), module("up", macs=10**9, count=10**9, time_s=3e-4)],
        hardware="h100-sxm",
        resources=[Resource(name="matmul:tf32", amount=2e12, unit="FLOP", peak_per_s=494.7e12, time_s=4.05e-3)],
    )  # fmt: skip
    return msgspec.structs.replace(whole, **changes)


def page(*targets: TargetReport, **more: object) -> str:
    return report_page(FileReport(path="/a/model.py", problems=[], targets=list(targets)), **more)  # pyright: ignore


def test_a_page_loads_nothing() -> None:
    for text in (page(target()), graph_page("model.py", [Graph(name="Model", einsums=[], tensors=[], edges=[])])):
        assert "default-src 'none'" in text
        assert not re.search(r"""\b(?:src|href)\s*=|url\((?!#)|@import|\bstyle=|\son\w+=""", text)
        nonces = re.findall(r"nonce[-=]\"?([\w-]{10,})", text)
        assert len(nonces) == 4 and len(set(nonces)) == 1
    assert re.findall("nonce-([^']+)", page(target())) != re.findall("nonce-([^']+)", page(target()))


def test_what_stands_in_the_users_file_is_escaped() -> None:
    problem = Problem(code="import-error", line=1, message=EVIL)
    evil = target(
        name=EVIL, assumptions=[EVIL], partial=[EVIL], modules=[module(EVIL, macs=1, count=1, time_s=1, type=EVIL)]
    )
    text = report_page(FileReport(path=EVIL, problems=[problem], targets=[evil]), {}, {EVIL: EVIL})
    assert EVIL not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 7
    einsum = {"name": EVIL, "kind": "map", "equation": EVIL, "operator": EVIL, "module": EVIL}
    tensor = {"name": "x" + EVIL, "dtype": EVIL, "shape": [1], "role": EVIL, "demanded_bytes": 4}
    edge = {"tensor": "x" + EVIL, "to": EVIL, "bytes": 4}
    graph = json.dumps({"name": EVIL, "einsums": [einsum], "tensors": [tensor], "edges": [edge]}, indent=1)
    text = graph_page(EVIL, decode_graphs(graph))
    assert EVIL not in text


def circles(text: str) -> dict[str, tuple[float, float]]:
    found = re.findall(r'class="dot[^"]*" data-rows="([\d ]+)".*?<circle cx="([\d.]+)" cy="([\d.]+)"', text, re.DOTALL)
    return {rows: (float(x), float(y)) for rows, x, y in found}


def ticks(text: str, anchor: str, unit: str) -> dict[float, float]:
    """Pixels of the labels of an axis, by value."""
    factors = {"": 1.0, "G": 1e9, "T": 1e12, "P": 1e15}
    where = r'x="([\d.]+)" y="[\d.]+"' if anchor == "middle" else r'x="[\d.]+" y="([\d.]+)"'
    pattern = rf'class="tick" {where} text-anchor="{anchor}">([\d.]+) ?([GTP]?){unit}<'
    return {float(n) * factors[prefix]: float(at) for at, n, prefix in re.findall(pattern, text)}


def test_a_dot_is_where_its_intensity_and_its_rate_are_on_the_labelled_axes() -> None:
    text = page(target())
    across, up = ticks(text, "middle", ""), ticks(text, "end", "")
    dots = circles(text)
    # The module: 2e9 FLOP over 1e9 byte in 300 µs.
    x, y = dots["1"]
    per_decade = across[10.0] - across[1.0]
    assert x == pytest.approx(across[1.0] + math.log10(2) * per_decade, abs=0.2)
    rise = up[1e12] - up[1e13]
    # A label's baseline is 4 below its line of the grid.
    assert y == pytest.approx(up[1e12] - 4 - math.log10(2e9 / 3e-4 / 1e12) * rise, abs=0.3)
    # The whole: 2000 FLOP a byte at the TF32 roof.
    x, y = dots["0"]
    assert x == pytest.approx(across[1000.0] + math.log10(2) * per_decade, abs=0.2)
    roof = float(re.search(r'data-chip="h100-sxm"><path d="M[-\d.]+ [-\d.]+L[-\d.]+ ([-\d.]+)H', text)[1])
    assert y == pytest.approx(roof, abs=0.5)


def test_roofs_have_the_pipes_that_the_program_uses_and_each_chip_once() -> None:
    assert [(c.name, c.peak) for c in roof_of(target(), H100).ceilings] == [("TF32", H100.matmul_peak("tf32"))]
    both = target(vector_ops=5)
    assert [c.name for c in roof_of(both, H100).ceilings] == ["TF32", "vector"]
    text = page(target())
    chips = re.findall(r'<g class="roof c\d( hidden)?" data-chip="([^"]+)"', text)
    assert sorted(chip for _, chip in chips) == sorted(catalog.ids())
    assert [chip for hidden, chip in chips if not hidden] == ["h100-sxm"]


def test_modules_at_one_place_share_a_dot_and_keep_their_rows() -> None:
    twins = [module(f"blocks.{n}", macs=10**9, count=10**9, time_s=3e-4) for n in range(3)]
    text = page(target(modules=twins))
    assert set(circles(text)) == {"0", "1 2 3"}
    assert len(re.findall(r"<tr data-row=", text)) == 4


def test_a_failed_target_shows_no_number() -> None:
    text = page(target(validation=Validation(status="failed")))
    assert "No number is shown" in text
    assert "ms" not in re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL)


def test_measured_times_stand_beside_the_bound() -> None:
    text = page(target(), measured={"Model": {"": 8.1e-3, "up": 6e-4}})
    assert ">8.10 ms<" in text and ">2.00×<" in text and ">600 µs<" in text
    assert "measured 8.10 ms" in text
    assert ">× bound<" not in page(target())


def test_a_target_without_work_is_no_division_by_zero() -> None:
    free = target(macs=0, flop=0, time_s=Times(fused=0, cache_aware=0, unfused=0), modules=[], resources=[])
    assert "free" in page(free)


def test_a_library_call_of_several_results_is_their_origin() -> None:
    einsums = [
        {"name": "values", "kind": "library", "equation": "values, indices = topk(x)", "line": 4},
        {"name": "y", "kind": "map", "equation": "y[i:3] = indices[i]", "line": 5},
    ]
    tensors = [{"name": "x", "dtype": "f32", "shape": [9], "role": "input", "demanded_bytes": 36}]
    edges = [{"tensor": "x", "to": "values", "bytes": 36}, {"tensor": "indices", "to": "y", "bytes": 24}]
    one = json.dumps({"name": "A", "einsums": einsums, "tensors": tensors, "edges": edges}, indent=1)
    graphs = decode_graphs(f"{one}\n{one}")
    assert [graph.name for graph in graphs] == ["A", "A"]
    text = graph_page("m.py", graphs)
    assert text.count('<path class="edge" ') == 4
    assert ">24 B<" in text and ">36 B<" in text


def test_an_axis_holds_its_values_in_whole_decades() -> None:
    axis = LogAxis.around([0.2, 3e3], 0, 100)
    assert (axis.low, axis.high) == (0.1, 1e4)
    assert axis.at(1) == pytest.approx(20)
    assert axis.decades() == pytest.approx([0.1, 1, 10, 100, 1000, 10000])
    assert (LogAxis.around([], 0, 1).low, LogAxis.around([1.0], 0, 1).high) == (1, 10)
