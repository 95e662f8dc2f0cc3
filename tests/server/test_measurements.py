"""Files of measured times: what is read, what is passed over, what is reported."""

from pathlib import Path

import pytest

from sollens.analysis.report import ModuleRow, TargetReport, Times, Traffic, Validation
from sollens.server.measurements import Measurement, Measurements, findings, load, of_module, sentence

TARGET = TargetReport(
    name="Model", line=3, frontend="torch", macs=1, macs_by_pipe={}, vector_ops=0, flop=2, limit="memory",
    bytes=Traffic(compulsory=1, cache_aware=None, unfused=1), confidence="high", partial=[], inverse=None,
    time_s=Times(fused=1e-3, cache_aware=None, unfused=2e-3), validation=Validation(), lines=[], findings=[],
    stage_s={}, hardware="h100-sxm",
    modules=[ModuleRow(path="up", line=7, count=2, macs=1, bytes=1, time_s=2e-4)],
)  # fmt: skip
PATH = Path("/work/src/model.py")


def read(tmp_path: Path, name: str, text: str) -> tuple[Measurements, list[str]]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load(tmp_path / name)


def test_csv_and_json_say_the_same(tmp_path: Path) -> None:
    table = "\ufeffname,time,hardware,file\nModel,1.5 ms,h100,src/model.py\nModel.up,0.0003,,\n"
    objects = """[{"name": "Model", "time": "1500us", "hardware": "H100-SXM", "file": "src/model.py"},
                  {"name": "Model.up", "time": 3e-4}]"""
    one, two = read(tmp_path, "a.csv", table), read(tmp_path, "b.json", objects)
    assert one == two
    assert one[1] == []
    assert one[0].of(TARGET, PATH) == {"": pytest.approx(1.5e-3), "up": pytest.approx(3e-4)}


def test_rows_of_another_chip_file_or_class_are_passed_over() -> None:
    rows = (
        Measurement(name="Model", time_s=1, hardware="l4"),
        Measurement(name="Model", time_s=2, file="other.py"),
        Measurement(name="Models", time_s=3),
        Measurement(name="Model", time_s=5),
        Measurement(name="Model", time_s=4),
    )
    assert Measurements(rows).of(TARGET, PATH) == {"": 4}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "name,time\nModel,soon\n",
            "row 1: time of Model: expected seconds, or a duration such as 1.8 ms, found 'soon'",
        ),
        ("name,time\nModel,-1\n", "row 1: time of Model: expected a time above 0, found '-1'"),
        ("name,time\n,1\n", "row 1: expected the name of a class"),
        ("name,time,hardware\nModel,1,h1000\n", "row 1: hardware of Model: unknown hardware 'h1000'"),
        ("time,who\n1,x\n2,y\n3,z\n", "2 more"),
    ],
)
def test_a_bad_row_is_reported_and_the_others_count(tmp_path: Path, text: str, problem: str) -> None:
    found, problems = read(tmp_path, "a.csv", text)
    assert found.rows == ()
    assert problem in " ".join(problems)


@pytest.mark.parametrize("text", ["{}", "[1]", "[", "nonsense"])
def test_json_of_another_shape_is_reported(tmp_path: Path, text: str) -> None:
    assert "expected CSV or JSON" in read(tmp_path, "a.json", text)[1][0]


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    assert "No such file" in load(tmp_path / "none.csv")[1][0]
    assert "no plain file" in load(Path("/dev/zero"))[1][0]


def test_findings_say_how_far_above_or_below_the_bound(tmp_path: Path) -> None:
    [whole, part] = findings(TARGET, {"": 4e-3, "up": 1e-3, "gone": 1})
    assert (whole.code, whole.line, whole.share) == ("measured-headroom", 3, pytest.approx(0.75))
    assert (part.line, part.share) == (7, pytest.approx(2 * 8e-4 / 4e-3))
    assert [each.code for each in findings(TARGET, {"": 0.9e-3})] == ["bound-beaten"]
    assert findings(TARGET, {"": 1.01e-3}) == findings(TARGET, {}) == []


def test_a_line_shows_the_module_that_it_builds() -> None:
    assert of_module(TARGET, 7, {"up": 1.0}) == (TARGET.modules[0], 1.0)
    assert of_module(TARGET, 8, {"up": 1.0}) is None
    assert sentence(1.85e-3, 1e-3) == "measured 1.85 ms, 1.85× the bound"
