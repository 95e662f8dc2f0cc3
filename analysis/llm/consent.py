"""Who agreed to send a workspace's sources where. Kept in the user's own folder: a repository cannot agree for them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sollens.analysis import atomic

WHAT_IS_SENT = (
    "the text of a file that cannot be traced (or of a single operator), the shapes and dtypes of its arrays, "
    "and, after a wrong answer, single numbers of it"
)


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace, the host that may get its sources, and since when."""

    workspace: str
    host: str
    since: str


def consent_file() -> Path:
    """Where agreements are kept."""
    import platformdirs

    folder = os.environ.get("SOLLENS_STATE_DIR") or platformdirs.user_state_dir("sollens", appauthor=False)
    return Path(folder) / "llm-consent.json"


class Consents:
    """The agreements of this user. A file that cannot be read is no agreement."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or consent_file()

    def all(self) -> tuple[Agreement, ...]:
        """Every agreement."""
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=tuple[Agreement, ...])
        except (OSError, msgspec.MsgspecError):
            return ()

    def has(self, workspace: Path, host: str) -> bool:
        """Whether this workspace's sources may go to that host."""
        return any((a.workspace, a.host) == (_name(workspace), host) for a in self.all())

    def give(self, workspace: Path, host: str) -> None:
        """Agree; raises OSError."""
        kept = [a for a in self.all() if (a.workspace, a.host) != (_name(workspace), host)]
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*kept, Agreement(workspace=_name(workspace), host=host, since=since)])

    def revoke(self, workspace: Path) -> int:
        """Take back every agreement of a workspace; how many there were."""
        known = self.all()
        kept = [a for a in known if a.workspace != _name(workspace)]
        if len(kept) < len(known):
            self._write(kept)
        return len(known) - len(kept)

    def _write(self, agreements: list[Agreement]) -> None:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic.write(self.file, msgspec.json.encode(agreements))


def question(workspace: Path, host: str, model: str) -> str:
    """What a user is asked before the first use in a workspace."""
    return (
        f"sollens would send to {host} (model {model}): {WHAT_IS_SENT}. "
        f"This holds for {_name(workspace)} until `sollens llm revoke`."
    )


def _name(workspace: Path) -> str:
    return str(workspace.resolve())
