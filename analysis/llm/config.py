"""Which endpoint is asked, and what a translation may cost. Off until an address and a model are set.

Only the user sets these: the editor's user settings, the environment (`SOLLENS_LLM_*`) or `llm.toml` in the user's own
configuration folder. Never a repository, which could send the source and the key elsewhere.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

KEY_VARIABLE = "SOLLENS_LLM_KEY"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class BadConfig(ValueError):
    """A setting that cannot be used; the text says what was expected and found."""


class LlmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAI-compatible endpoint and the budget of one translation.

    `key_variable` names the environment variable that holds the key; the key itself is in no file. `tokens` counts
    prompts and replies of all rounds; prices are for the cost that the benchmark prints, in currency per million.
    """

    base_url: str = ""
    model: str = ""
    key_variable: str = KEY_VARIABLE
    temperature: float = 0.0
    rounds: int = 4
    tokens: int = 120_000
    reply_tokens: int = 8_000
    seconds: float = 180.0
    input_price: float = 0.0
    output_price: float = 0.0

    @property
    def is_on(self) -> bool:
        """Whether an endpoint is configured."""
        return bool(self.base_url and self.model)

    @property
    def host(self) -> str:
        """Who gets the source."""
        return urlsplit(self.base_url).netloc

    def key(self, environment: Mapping[str, str] = os.environ) -> str:
        """The key; empty where the variable is not set, as local endpoints need none."""
        return environment.get(self.key_variable, "")

    def checked(self, environment: Mapping[str, str] = os.environ) -> LlmConfig:
        """This configuration; raises BadConfig where it cannot be used."""
        try:
            address = urlsplit(self.base_url)
            name, _ = address.hostname, address.port  # a bad port raises here
        except ValueError:
            raise BadConfig(f"llm address: expected https://HOST/PATH, found {self.base_url!r}") from None
        if address.scheme not in ("http", "https") or not name:
            raise BadConfig(f"llm address: expected https://HOST/PATH, found {self.base_url!r}")
        if address.username or address.password or address.query:
            raise BadConfig(f"llm address: expected no key in it: put it into the variable {self.key_variable}")
        if address.scheme == "http" and name not in _LOOPBACK:
            raise BadConfig(f"llm address: expected https for {name}, found http, which anyone on the way can read")
        limits = (("rounds", 1, 20), ("tokens", 1000, 10**7), ("reply_tokens", 100, 10**6), ("seconds", 1, 3600))
        for field, low, high in limits:
            if not low <= getattr(self, field) <= high:
                raise BadConfig(f"llm {field}: expected {low} to {high}, found {getattr(self, field)}")
        if not 0 <= self.temperature <= 2:
            raise BadConfig(f"llm temperature: expected 0 to 2, found {self.temperature}")
        return self


def user_file() -> Path:
    """Where the user's own configuration is."""
    import platformdirs

    folder = os.environ.get("SOLLENS_CONFIG_DIR") or platformdirs.user_config_dir("sollens", appauthor=False)
    return Path(folder) / "llm.toml"


def load(environment: Mapping[str, str] = os.environ, file: Path | None = None) -> LlmConfig:
    """The configuration of the command line: the user's file, then SOLLENS_LLM_URL and its siblings.

    Raises BadConfig.
    """
    file = file or user_file()
    table: dict[str, Any] = {}
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"{file}: expected readable TOML, found: {error}") from None
    for name in LlmConfig.__struct_fields__:
        variable = "SOLLENS_LLM_" + {"base_url": "URL"}.get(name, name.upper())
        if environment.get(variable):
            table[name] = environment[variable]
    unknown = sorted(set(table) - set(LlmConfig.__struct_fields__))
    if unknown:
        raise BadConfig(f"{file}: expected {', '.join(LlmConfig.__struct_fields__)}, found {', '.join(unknown)}")
    try:
        config = msgspec.convert(table, LlmConfig, strict=False)
    except msgspec.ValidationError as error:
        raise BadConfig(f"llm configuration ({file} and SOLLENS_LLM_*): {error}") from None
    return config.checked(environment) if config.is_on else config
