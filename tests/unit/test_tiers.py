"""The two tiers of the suite."""

from __future__ import annotations

import pytest
from tests.architecture.files import ROOT, files, name
from tests.support import tiers


def test_each_file_is_in_exactly_one_tier_and_each_prefix_has_files() -> None:
    paths = [path for path in files(".py", under="tests") if path.name.startswith("test_")]
    for path in paths:
        found = [tier for tier in ("test", "rest") if tiers.is_in(path, tier)]
        assert found == (["test", "rest"] if name(path) in tiers.BOTH else [tiers.tier_of(name(path))])
        assert tiers.is_in(path, None)
    for prefix in (*tiers.ROOMS, *tiers.REST, *tiers.BOTH):
        assert any(name(path).startswith(prefix) for path in paths), prefix


def test_folders_and_other_modules_are_collected_in_each_tier() -> None:
    assert tiers.is_in(ROOT / "tests" / "kafka", "test")
    assert tiers.is_in(ROOT / "tests" / "kafka" / "conftest.py", "test")


def test_all_names_take_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"bug-{number}" for number in range(40)]
    seen: set[str] = set()
    for commit in range(40):
        monkeypatch.setattr(tiers, "head", lambda commit=commit: f"{commit:040x}"[::-1])
        chosen = tiers.turn(names, "test")
        assert sorted([*chosen, *tiers.turn(names, "rest")]) == sorted(names)
        seen.update(chosen)
    assert seen == set(names)
    assert tiers.turn(names, None) == names


def test_without_git_the_first_names_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "head", lambda: "")
    assert tiers.turn(list(range(40)), "test") == list(range(12))
