"""Settings: layers, checks, documentation."""

import json
import re
from pathlib import Path

import pytest

from sollens.analysis.findings import CODES
from sollens.server import config
from sollens.server.codes import documentation
from sollens.server.config import Settings, layered, pyproject_table, without_defaults
from sollens.server.configuration import Configuration, root_of
from sollens.server.environment import find_interpreter

DOCS = Path(__file__).parents[2] / "docs"


def test_nested_and_flat_keys_both_work():
    nested, _ = layered(Settings(), {"inlayHints": {"lines": "totals"}}, "x")
    flat, _ = layered(Settings(), {"inlayHints.lines": "totals"}, "x")
    assert nested.inlay_hints_lines == flat.inlay_hints_lines == "totals"


@pytest.mark.parametrize(
    ("table", "warning"),
    [
        ({"precision": "tf23"}, "expected one of as-written, tf32, 16bit, found 'tf23'"),
        ({"hardware": "h10"}, "did you mean 'h100'?"),
        ({"hardware": 3}, "expected a text, found 3"),
        ({"target": "soon"}, "expected a time above 0 with its unit, such as 2ms, or nothing, found 'soon'"),
        ({"target": "0s"}, "expected a time above 0"),
        ({"deadline": True}, "expected a number from 0.1 to 3600, found True"),
        ({"deadline": float("nan")}, "expected a number from 0.1 to 3600, found nan"),
        ({"diagnostics": {"minShare": 2}}, "sollens.diagnostics.minShare in x: expected a number from 0 to 1, found 2"),
        ({"inlayHints": {"enabled": "yes"}}, "expected true or false, found 'yes'"),
        ({"memoryLimit": "8 kB"}, "expected an amount of memory from 256 MiB up, such as 8 GiB, found '8 kB'"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_and_the_rest_applies(table, warning):
    settings, warnings = layered(Settings(), {**table, "validate": {"enabled": False}}, "x")
    assert settings == layered(Settings(), {"validate": {"enabled": False}}, "x")[0]
    [message] = warnings
    assert warning in message


def test_values_have_their_meaning():
    settings, warnings = layered(Settings(), {"target": "2ms", "memoryLimit": "1 GiB", "deadline": 3}, "x")
    assert (settings.target_s, settings.memory_bytes, settings.deadline_s, warnings) == (0.002, 2**30, 3.0, [])
    assert Settings().target_s is None


def test_what_the_editor_sends_with_its_default_does_not_hide_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.sollens]\nhardware = "t4"\ndeadline = "x"\n')
    everything = {each.key: each.default for _, each in config.settings()}
    assert without_defaults(everything) == {}
    found = Configuration(table=everything).resolve(tmp_path)
    assert found.chip.id == "t4"
    assert found.warnings == (
        "sollens.deadline in pyproject.toml: expected a number from 0.1 to 3600, found 'x'; 20.0 is used",
    )
    assert Configuration(table={"hardware": "l4"}).resolve(tmp_path).chip.id == "l4"


def test_a_chosen_chip_lasts_until_the_editor_names_another(tmp_path):
    configuration = Configuration()
    configuration.hardware = "t4"
    configuration.update({"precision": "tf32"})
    assert configuration.resolve(tmp_path).chip.id == "t4"
    configuration.update({"hardware": "l4"})
    assert configuration.resolve(tmp_path).chip.id == "l4"


@pytest.mark.parametrize("text", ["[tool.sollens", "tool = 1", "[tool]\nsollens = 1\n", "\xff"])
def test_a_broken_pyproject_is_no_crash(tmp_path, text):
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    table, problem = pyproject_table(tmp_path)
    assert table == {}
    assert problem is None if text == "tool = 1" else "pyproject.toml" in problem


def test_the_innermost_folder_is_the_root():
    folders = [Path("/w"), Path("/w/inner"), Path("/other")]
    assert root_of(Path("/w/inner/a.py"), folders) == Path("/w/inner")
    assert root_of(Path("/w/innermost/a.py"), folders) == Path("/w")
    assert root_of(Path("/elsewhere/a.py"), folders) is None


@pytest.fixture
def python(tmp_path):
    def make(*parts: str) -> str:
        path = tmp_path.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
        return str(path)

    return make


def test_the_interpreter_is_looked_for_from_the_setting_down_to_path(tmp_path, python):
    in_path = python("path", "python3")
    in_root = python("root", ".venv", "bin", "python")
    active = python("active", "bin", "python")
    chosen, named = python("chosen"), python("root", "mine", "python")
    root = tmp_path / "root"

    def find(setting="", chosen="", variables=None, root=root):
        variables = {"PATH": str(tmp_path / "path"), **(variables or {})}
        return find_interpreter(setting=setting, chosen=chosen, root=root, variables=variables, windows=False)

    environment = {"VIRTUAL_ENV": str(tmp_path / "active")}
    assert find("mine/python", chosen, environment).path == named
    assert find("", chosen, environment).path == chosen
    assert find("", "", environment).path == active
    assert find().path == in_root
    assert find(root=None).path == in_path
    assert find("python3").path == in_path
    missing = find("nowhere/python")
    assert "expected a Python in the setting sollens.interpreter, found no file" in missing.missing
    assert "no python3" in find(root=None, variables={"PATH": ""}).missing


def test_the_documentation_of_settings_is_generated():
    assert (DOCS / "settings.md").read_text() == config.markdown(), "run python -m sollens.server.config --markdown"


def test_every_setting_is_in_the_manifest_with_its_type(capsys):
    assert config.main(["--vscode"]) == 0
    properties = json.loads(capsys.readouterr().out)
    assert list(properties) == [f"sollens.{each.key}" for _, each in config.settings()]
    assert properties["sollens.deadline"]["default"] == 20
    assert properties["sollens.precision"]["enum"] == ["as-written", "tf32", "16bit"]
    assert {key for key, each in properties.items() if each.get("restricted")} == {
        "sollens.interpreter",
        "sollens.server.path",
    }
    assert config.main([]) == 2


def test_every_code_has_a_section_that_its_link_leads_to():
    text = (DOCS / "diagnostics.md").read_text()
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sorted(sections) == sorted(CODES)
    lines = text.split("\n")
    for code in CODES:
        address, _, line = documentation(code).partition("#L")
        assert address == (DOCS / "diagnostics.md").resolve().as_uri()
        assert lines[int(line) - 1] == f"## {code}"
    assert documentation("of-tomorrow") is None
    assert set(re.findall(r"\(#([^)]+)\)", text)) == set(sections)


def test_every_code_in_the_sources_is_in_the_catalogue():
    sources = Path(config.__file__).parent.rglob("*.py")
    used = {
        code
        for source in sources
        for code in re.findall(r'(?:code=|_failed\(\s*source, )"([a-z-]+)"', source.read_text())
    }
    assert used
    assert used <= set(CODES)


def test_a_repository_does_not_choose_who_gets_the_sources(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.sollens.llm]\nbaseUrl = "https://evil.example/v1"\nmodel = "m"\nkeyVariable = "AWS_SECRET_ACCESS_KEY"\n'
    )
    found = Configuration(table={"llm": {"model": "mine"}}).resolve(tmp_path)
    assert (found.settings.llm_base_url, found.settings.llm_model) == ("", "mine")
    assert found.settings.llm_key_variable == "SOLLENS_LLM_KEY"
    assert [w.partition(" in ")[0] for w in found.warnings] == [
        "sollens.llm.baseUrl", "sollens.llm.model", "sollens.llm.keyVariable",
    ]  # fmt: skip
