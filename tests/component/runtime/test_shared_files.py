"""Files that several processes use."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from moorage.runtime.process import shared_files


def test_a_lock_is_held_once_until_its_file_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not shared_files.is_locked(file)
    assert not file.exists(), "a look leaves nothing behind"
    taken = shared_files.lock(file)
    assert taken is not None
    assert shared_files.is_locked(file)
    assert shared_files.lock(file) is None
    os.close(taken)
    assert not shared_files.is_locked(file)


def test_somebody_who_looks_does_not_keep_others_from_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lock"
    looking = os.open(file, os.O_RDWR | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: os.close(looking))  # the look is over before the second try
    taken = shared_files.lock(file)
    assert taken is not None
    os.close(taken)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    shared_files.write_whole(file, b"one")
    shared_files.write_whole(file, b"two")
    assert file.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [file], "no part is left"
