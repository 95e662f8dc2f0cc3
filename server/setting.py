"""What is known about one setting: its key, type, default, limits and documentation."""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import Any, TypeVar

Value = TypeVar("Value", str, bool, float)


class Rejected(ValueError):
    """A value that does not fit; the text says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting; `key` is dotted, without `sollens.`."""

    key: str
    default: str | bool | float
    description: str
    choices: Mapping[str, str]
    minimum: float | None
    maximum: float | None
    scope: str
    restricted: bool
    check: Callable[[str], None] | None

    def read(self, value: object) -> str | bool | float:
        """The value in the setting's own type; raises Rejected."""
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise Rejected("true or false")
            return value
        if isinstance(self.default, float):
            return self._read_number(value)
        if not isinstance(value, str):
            raise Rejected(f"one of {', '.join(self.choices)}" if self.choices else "a text")
        if self.choices and value not in self.choices:
            raise Rejected(f"one of {', '.join(self.choices)}")
        if self.check is not None:
            self.check(value)
        return value

    def _read_number(self, value: object) -> float:
        lowest = self.minimum if self.minimum is not None else float("-inf")
        highest = self.maximum if self.maximum is not None else float("inf")
        if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
            raise Rejected(f"a number from {lowest:g} to {highest:g}")
        return float(value)

    def vscode(self) -> dict[str, Any]:
        """The property of VS Code's manifest."""
        kinds = {bool: "boolean", float: "number", str: "string"}
        shown: dict[str, Any] = {"type": kinds[type(self.default)]}
        if self.choices:
            shown["enum"] = list(self.choices)
            shown["enumDescriptions"] = list(self.choices.values())
        shown["default"] = self._plain_default
        if self.minimum is not None:
            shown["minimum"] = self.minimum
        if self.maximum is not None:
            shown["maximum"] = self.maximum
        shown["scope"] = self.scope
        shown["markdownDescription"] = self.description
        if self.restricted:
            shown["restricted"] = True
        return shown

    def markdown(self) -> str:
        """The section of docs/settings.md."""
        default = (
            {True: "true", False: "false"}.get(self.default) if isinstance(self.default, bool) else self._plain_default
        )
        lines = [f"## `sollens.{self.key}`\n", self.description]
        lines += [f"- `{choice}`: {meaning}" for choice, meaning in self.choices.items()]
        shown = f"`{default}`" if default != "" else "empty"
        limits = (
            f" From {self.minimum:g} to {self.maximum:g}."
            if self.minimum is not None and self.maximum is not None
            else ""
        )
        restricted = " Ignored in untrusted workspaces." if self.restricted else ""
        machine = " Read from your own settings, never from a workspace's." if self.scope == "machine" else ""
        lines.append(f"\nDefault: {shown}.{limits}{restricted}{machine}\n")
        return "\n".join(lines)

    @property
    def _plain_default(self) -> str | bool | float:
        """20 rather than 20.0."""
        if isinstance(self.default, float) and self.default.is_integer():
            return int(self.default)
        return self.default


def setting(
    key: str,
    default: Value,
    description: str,
    *,
    choices: Mapping[str, str] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    scope: str = "resource",
    restricted: bool = False,
    check: Callable[[str], None] | None = None,
) -> Value:
    """A dataclass field that carries its Setting."""
    known = Setting(
        key=key,
        default=default,
        description=description,
        choices=choices or {},
        minimum=minimum,
        maximum=maximum,
        scope=scope,
        restricted=restricted,
        check=check,
    )
    return field(default=default, metadata={"setting": known})


def setting_of(of: Field[Any]) -> Setting:
    return of.metadata["setting"]
