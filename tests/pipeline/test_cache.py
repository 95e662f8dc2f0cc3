"""The store of traces and reports: what it keeps, forgets and survives."""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest

from sollens.analysis.cache import Cache, closure_digests, default_folder, key, unchanged


class Entry(msgspec.Struct):
    text: str


def test_what_was_put_is_got_by_another_instance(tmp_path: Path) -> None:
    Cache(tmp_path).put(key("trace", "a", 1), Entry("é" * 1000))
    assert Cache(tmp_path).get_as(key("trace", "a", 1), Entry) == Entry("é" * 1000)
    assert Cache(tmp_path).get(key("trace", "a", 2)) is None


def test_a_key_depends_on_every_part_and_not_on_the_order_of_a_mapping() -> None:
    assert key("a", {"x": 1, "y": 2}) == key("a", {"y": 2, "x": 1})
    assert len({key("a", "b", "c"), key("a", "bc"), key("b", "b", "c"), key("a", ["b"], "c"), key("a", "b", None)}) == 5


@pytest.mark.parametrize("damage", [lambda d: d[: len(d) // 2], lambda d: b"", lambda d: d[:20] + b"\0" + d[21:]])
def test_a_damaged_entry_is_missing_and_removed(tmp_path: Path, damage) -> None:
    name = key("report", "x")
    cache = Cache(tmp_path)
    cache.put(name, os.urandom(400))
    (path,) = tmp_path.rglob("*.json.z")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(name) is None
    assert not path.exists()


def test_an_entry_of_another_shape_is_missing_and_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(key("report", "x"), b'{"other": 1}')
    assert cache.get_as(key("report", "x"), Entry) is None
    assert cache.info().entries == 0


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=10_000)
    names = [key("trace", i) for i in range(9)]
    for age, name in enumerate(names):
        cache.put(name, os.urandom(1000))
        path = next(tmp_path.rglob(f"{name}*"))
        os.utime(path, (age, age))
    assert cache.get(names[0]) is not None  # read: now the newest
    cache.put(key("trace", "more"), os.urandom(2000))
    assert cache.info().bytes <= 10_000
    assert cache.get(names[0]) is not None
    assert cache.get(names[1]) is None


def test_clear_removes_everything_and_says_what_was_there(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(key("trace", 1), b"{}")
    (tmp_path / "not-ours.txt").write_text("kept")
    assert cache.clear().entries == 1
    assert cache.info().entries == 0
    assert (tmp_path / "not-ours.txt").exists()


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "below")
    cache.put(key("trace", 1), b"{}")
    assert cache.get(key("trace", 1)) is None


def test_a_disabled_cache_keeps_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path, enabled=False)
    cache.put(key("trace", 1), b"{}")
    assert not list(tmp_path.iterdir())


def test_the_folder_can_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOLLENS_CACHE_DIR", str(tmp_path))
    assert default_folder() == tmp_path


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("1")
    noted = closure_digests([str(file)])
    assert unchanged(noted)
    file.write_text("2")
    assert not unchanged(noted)
    file.unlink()
    assert not unchanged(noted)


def _write_and_read(folder: str) -> bool:
    cache = Cache(Path(folder), limit_bytes=20_000)
    for i in range(60):
        cache.put(key("trace", i % 10), bytes([i % 10]) * 3000)
        found = cache.get(key("trace", (i + 3) % 10))
        if found is not None and found != bytes([(i + 3) % 10]) * 3000:
            return False
    return True


def test_processes_that_share_a_folder_see_whole_entries(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(_write_and_read, [str(tmp_path)] * 2))
