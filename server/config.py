"""The settings: one dataclass, from which docs/settings.md and the extension's manifest are generated.

    python -m sollens.server.config --markdown > docs/settings.md
    python -m sollens.server.config --vscode

Layers, later ones first: the editor's settings (initializationOptions, then workspace/didChangeConfiguration),
`[tool.sollens]` in the pyproject.toml of the document's root, the defaults. An editor that sends a setting with its
default value has not set it: VS Code sends them all.
"""

import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from sollens.hardware import catalog
from sollens.hardware.units import UnitError, parse_quantity, parse_seconds
from sollens.server.setting import Rejected, Setting, setting, setting_of


def _hardware(value: str) -> None:
    try:
        catalog.load(value)
    except catalog.UnknownTarget as unknown:
        hint = f" (did you mean {unknown.suggestion!r}?)" if unknown.suggestion else ""
        raise Rejected(f"the id of a chip, such as h100-sxm{hint}; `sollens hw` lists them") from None


def _latency(value: str) -> None:
    if not value.strip():
        return
    try:
        seconds = parse_seconds(value)
    except UnitError:
        seconds = 0.0
    if seconds <= 0:
        raise Rejected("a time above 0 with its unit, such as 2ms, or nothing")


def _memory(value: str) -> None:
    try:
        count, _ = parse_quantity(value, "byte")
    except UnitError:
        count = 0.0
    if not 2**28 <= count <= 2**50:
        raise Rejected("an amount of memory from 256 MiB up, such as 8 GiB")


_INTRODUCTION = """\
# Settings

<!-- Generated: python -m sollens.server.config --markdown > docs/settings.md -->

In VS Code: *Settings*, `sollens.`. In other editors: `initializationOptions.settings` or `settings.sollens`, nested
at the dots. In a repository: `[tool.sollens]` of its `pyproject.toml`, for example

```toml
[tool.sollens]
hardware = "a100-sxm"
target = "2ms"

[tool.sollens.diagnostics]
minShare = 0.1
```

What the editor sets wins over `pyproject.toml`; a value equal to the default counts as not set. A value that does not
fit is reported, and the rest still applies.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user can set. Field order is the order in the documentation."""

    hardware: str = setting(
        "hardware",
        "h100-sxm",
        "Chip whose limits are shown, by its id (`sollens hw` lists them).",
        check=_hardware,
    )
    precision: str = setting(
        "precision",
        "as-written",
        "Precision that the bounds allow.",
        choices={
            "as-written": "What the framework does with this program as it is written.",
            "tf32": "float32 matrix products may use TF32.",
            "16bit": "Matrix products may use 16-bit inputs.",
        },
    )
    target: str = setting(
        "target",
        "",
        "Latency to reach, with its unit, such as `2ms`: hovers then tell which rates it needs. Empty: none.",
        check=_latency,
    )
    interpreter: str = setting(
        "interpreter",
        "",
        "Python that has your model's packages (torch). Empty: the one chosen in the Python extension, else the active "
        "virtual environment, else `.venv` or `venv` in the workspace, else `python3` or `python` on PATH.",
        scope="machine-overridable",
        restricted=True,
    )
    server_path: str = setting(
        "server.path",
        "",
        "The `sollens` executable. Empty: sollens in the chosen interpreter, else `sollens` on PATH. "
        "Read by the editor.",
        scope="machine-overridable",
        restricted=True,
    )
    inlay_hints_enabled: bool = setting("inlayHints.enabled", True, "Show the bound at the end of lines.")
    inlay_hints_lines: str = setting(
        "inlayHints.lines",
        "all",
        "Lines that get a hint.",
        choices={"all": "Every line with work.", "totals": "Class and function headers alone."},
    )
    diagnostics_enabled: bool = setting(
        "diagnostics.enabled",
        True,
        "Show findings as diagnostics. Why a file could not be analysed is always shown.",
    )
    diagnostics_min_share: float = setting(
        "diagnostics.minShare",
        0.05,
        "Leave out findings that would save less than this share of the total (0 to 1).",
        minimum=0,
        maximum=1,
    )
    code_lens_enabled: bool = setting(
        "codeLens.enabled", True, "Show total and headroom above classes and functions; a click opens the report."
    )
    measurements: str = setting(
        "measurements",
        "",
        "File with times of real runs (CSV or JSON: name, time), relative to the workspace: hovers, findings and the "
        "report hold them against the bounds. Empty: none.",
    )
    deadline_s: float = setting(
        "deadline",
        20.0,
        "Seconds that tracing a file may take.",
        minimum=0.1,
        maximum=3600,
    )
    memory_limit: str = setting(
        "memoryLimit",
        "8 GiB",
        "Memory that tracing a file may take, such as `8 GiB`.",
        check=_memory,
    )
    validate_enabled: bool = setting(
        "validate.enabled",
        True,
        "Run the lowered program at a small size against the original and say whether they agree.",
    )
    llm_base_url: str = setting(
        "llm.baseUrl",
        "",
        "Address of an OpenAI-compatible endpoint, such as `https://api.example.com/v1`, that translates sources which "
        "cannot be traced (docs/llm.md). Empty: nothing is ever sent.",
        scope="machine",
    )
    llm_model: str = setting("llm.model", "", "The model to ask. Empty: none.", scope="machine")
    llm_key_variable: str = setting(
        "llm.keyVariable",
        "SOLLENS_LLM_KEY",
        "The environment variable that holds the endpoint's key. The key itself is in no setting.",
        scope="machine",
    )
    llm_temperature: float = setting(
        "llm.temperature", 0.0, "Temperature of the model's answers.", minimum=0, maximum=2, scope="machine"
    )
    llm_rounds: float = setting(
        "llm.rounds", 4.0, "How often a model may correct its translation.", minimum=1, maximum=20, scope="machine"
    )
    llm_tokens: float = setting(
        "llm.tokens",
        120000.0,
        "Tokens that one translation may take, sent and received, all rounds together.",
        minimum=1000,
        maximum=10**7,
        scope="machine",
    )
    llm_seconds: float = setting(
        "llm.seconds", 180.0, "Seconds that one translation may take.", minimum=1, maximum=3600, scope="machine"
    )
    trace_server: str = setting(
        "trace.server",
        "off",
        "How much of the messages between editor and server is logged. Read by the editor.",
        choices={"off": "Nothing.", "messages": "Their names.", "verbose": "Their contents."},
        scope="window",
    )

    @property
    def target_s(self) -> float | None:
        """The latency to reach in seconds, or None."""
        return parse_seconds(self.target) if self.target.strip() else None

    @property
    def memory_bytes(self) -> int:
        return int(parse_quantity(self.memory_limit, "byte")[0])


def settings() -> list[tuple[str, Setting]]:
    """The name of each field and what is known about it."""
    return [(field.name, setting_of(field)) for field in fields(Settings)]


def layered(
    base: Settings, table: Mapping[str, Any], source: str, *, in_repository: bool = False
) -> tuple[Settings, list[str]]:
    """`base` with what `table` (nested, as an editor or TOML has it) sets, and a warning for each bad value.

    A repository does not set what belongs to the machine: it could send sources and keys elsewhere.

    >>> layered(Settings(), {"precision": "tf23"}, "the editor")[1]
    ["sollens.precision in the editor: expected one of as-written, tf32, 16bit, found 'tf23'; 'as-written' is used"]
    """
    changes: dict[str, Any] = {}
    warnings: list[str] = []
    for name, each in settings():
        found = _lookup(table, each.key)
        if found is None:
            continue
        used: object = getattr(base, name)
        if in_repository and each.scope == "machine":
            warnings.append(f"sollens.{each.key} in {source}: expected it in your own settings alone; {used!r} is used")
            continue
        try:
            value = each.read(found)
        except Rejected as rejected:
            warnings.append(f"sollens.{each.key} in {source}: expected {rejected}, found {found!r}; {used!r} is used")
            continue
        changes[name] = value
    return replace(base, **changes), warnings


def without_defaults(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `table` that differ from their default, as a flat table."""
    found = {each.key: (_lookup(table, each.key), each.default) for _, each in settings()}
    return {key: value for key, (value, default) in found.items() if value is not None and value != default}


def pyproject_table(root: Path | None) -> tuple[dict[str, Any], str | None]:
    """`[tool.sollens]` of the root's pyproject.toml (empty when there is none), and what is wrong with the file."""
    if root is None:
        return {}, None
    file = root / "pyproject.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        return {}, f"{file}: expected readable TOML, found: {problem}"
    tool = document.get("tool")
    table: object = cast(dict[str, Any], tool).get("sollens", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        return {}, f"{file}: tool.sollens: expected a table, found {table!r}"
    return cast(dict[str, Any], table), None


def _lookup(table: Mapping[str, Any], key: str) -> object:
    """The value of a dotted key in nested or flat tables, or None."""
    if key in table:
        return table[key]
    head, _, rest = key.partition(".")
    inner: object = table.get(head)
    if rest and isinstance(inner, Mapping):
        return _lookup(cast(Mapping[str, Any], inner), rest)
    return None


def vscode_properties() -> dict[str, dict[str, Any]]:
    """`contributes.configuration.properties`; "restricted" marks what an untrusted workspace may not set."""
    return {f"sollens.{each.key}": each.vscode() for _, each in settings()}


def markdown() -> str:
    """docs/settings.md."""
    parts = [_INTRODUCTION]
    parts += [each.markdown() for _, each in settings()]
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    if arguments == ["--vscode"]:
        sys.stdout.write(json.dumps(vscode_properties(), indent=2) + "\n")
    elif arguments == ["--markdown"]:
        sys.stdout.write(markdown())
    else:
        sys.stderr.write(f"expected --vscode or --markdown, found {' '.join(arguments) or 'nothing'}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
