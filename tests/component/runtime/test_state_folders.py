"""The state folder: this user's alone, and one clear error if it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables import table

from moorage.cli.api import runfile
from moorage.cli.api.topics import unreachable
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.settings.state_folders import (
    StateFolderError,
    ensure_state_folder,
    make_private,
    other_state_folder,
)


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


@table(
    ("variable", "existing", "expected"),
    [
        ("MOORAGE_STATE_DIR", 0, 0o700),
        ("MOORAGE_STATE_DIR", 0o755, 0o755),  # it may be shared on purpose
        ("XDG_STATE_HOME", 0, 0o700),
        ("XDG_STATE_HOME", 0o755, 0o700),
    ],
)
def test_it_is_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, existing: int, expected: int
) -> None:
    base = tmp_path / f"{variable}-{existing}"
    folder = base if variable == "MOORAGE_STATE_DIR" else base / "moorage"
    monkeypatch.delenv("MOORAGE_STATE_DIR", raising=False)
    monkeypatch.setenv(variable, str(base))
    if existing:
        folder.mkdir(parents=True)
        folder.chmod(existing)
    with runfile.claimed():
        assert mode(folder) == expected


def test_what_is_in_it_is_private_in_any_case(tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "data").write_text("records")
    make_private(folder)
    assert mode(folder) == 0o700
    assert (folder / "data").read_text() == "records"


@table(("variable", "below"), [("MOORAGE_STATE_DIR", ""), ("MOORAGE_STATE_DIR", "deep"), ("XDG_STATE_HOME", "moorage")])
def test_a_file_in_its_place_is_named_with_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    monkeypatch.delenv("MOORAGE_STATE_DIR", raising=False)
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv(variable, str(file / below if variable == "MOORAGE_STATE_DIR" else file))
    rule = "must be a folder that can be written"
    with pytest.raises(StateFolderError, match=rf"^{variable}: invalid value '{file}.*': {rule}: "):
        ensure_state_folder()


def test_a_file_system_that_is_read_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    with pytest.raises(StateFolderError, match=r"must be a folder that can be written: Read-only file system$"):
        ensure_state_folder()


@table(
    ("variables", "advice"),
    [
        ({"MOORAGE_STATE_DIR": "/a", "XDG_STATE_HOME": "/b"}, "set MOORAGE_STATE_DIR"),
        ({"MOORAGE_STATE_DIR": "/a"}, "set MOORAGE_STATE_DIR"),
        ({"XDG_STATE_HOME": "/b"}, "set XDG_STATE_HOME"),
        ({}, "set MOORAGE_STATE_DIR"),
    ],
)
def test_the_advice_names_the_variable_that_counts(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], advice: str
) -> None:
    for name in ("MOORAGE_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
        if name in variables:
            monkeypatch.setenv(name, variables[name])
    assert other_state_folder() == advice


def test_a_kafka_that_a_setting_names_is_not_to_be_started_with_up() -> None:
    error = unreachable(Settings(bootstrap_servers="kafka:9092"), ConnectionError("refused"))
    assert str(error) == (
        "error: Kafka at kafka:9092 does not answer (refused).\n"
        "Start that cluster, or set MOORAGE_BOOTSTRAP_SERVERS to the addresses of another one."
    )
