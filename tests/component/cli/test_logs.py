"""`moorage logs`, and the log files of `moorage up`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import until
from typer.testing import CliRunner

from moorage.cli.app import app
from moorage.cli.local.log_files import LogFile, earlier, merged, rotate

TAINT = {"event": "taint.added", "service": "taint-manager", "target": "Node/n1", "correlation": "c1"}
EVICTION = {"event": "eviction.scheduled", "service": "eviction", "target": "Node/n1", "workload": "Pod/shop/web"}
PLACED = {"event": "workload.placed", "service": "placement", "targets": ["Cluster/c1: 2"], "workload": "R/shop/web"}
CHAIN = {"event": "partition.running", "service": "condition-ingest, eviction"}


def line(second: int, **fields: object) -> str:
    return json.dumps({"time": f"2026-01-01T00:00:{second:02}.5Z", "level": "info", **fields}) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path))
    found = tmp_path / "logs"
    found.mkdir()
    (found / "services.log").write_text(
        line(1, **TAINT) + line(3, **EVICTION) + "Traceback (most recent call last):\n" + line(5, **CHAIN)
    )
    (found / "gateway.log").write_text(line(2, event="request.refused", user="ann") + line(4, **PLACED))
    return found


def shown(*options: str) -> list[str]:
    result = CliRunner().invoke(app, ["logs", *options], prog_name="moorage")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def named(*options: str) -> list[str]:
    return [json.loads(one)["event"] for one in shown("-o", "json", *options)]


@pytest.mark.usefixtures("folder")
def test_lines_of_all_processes_come_by_time() -> None:
    assert named() == [
        "taint.added",
        "request.refused",
        "eviction.scheduled",
        "Traceback (most recent call last):",
        "workload.placed",
        "partition.running",
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--service", "gateway"), ["request.refused", "workload.placed"]),
        (("gateway",), ["request.refused", "workload.placed"]),
        (("placement", "--service", "taint-manager"), ["taint.added", "workload.placed"]),
        (("--service", "eviction"), ["eviction.scheduled", "partition.running"]),
        (("--service", "taint-manager", "--service", "placement"), ["taint.added", "workload.placed"]),
        (("--target", "Node/n1"), ["taint.added", "eviction.scheduled"]),
        (("--target", "Node/n"), []),
        (("--target", "Cluster/c1"), ["workload.placed"]),
        (("--workload", "Pod/shop/web"), ["eviction.scheduled"]),
        (("--correlation", "c"), ["taint.added"]),
        (("--grep", "refused|placed"), ["request.refused", "workload.placed"]),
        (("--since", "2026-01-01T00:00:04Z"), ["workload.placed", "partition.running"]),
        (("--tail", "2"), ["workload.placed", "partition.running"]),
        (("--tail", "0"), []),
        (("--target", "Node/n1", "--service", "eviction"), ["eviction.scheduled"]),
    ],
)
def test_filters(options: tuple[str, ...], found: list[str]) -> None:
    assert named(*options) == found


def test_text_begins_with_the_time_and_shows_no_control_characters(folder: Path) -> None:
    (folder / "webhooks.log").write_text(line(9, event="odd", message="\x1b[2J"))
    found = shown()
    assert found[0].startswith("2026-01-01T00:00:01.5Z [info     ] taint.added")
    assert "target=Node/n1" in found[0]
    assert found[3] == "services: Traceback (most recent call last):"
    assert "\x1b" not in found[-1]


def test_text_has_short_ids_and_json_has_all(folder: Path) -> None:
    ids = {"event_id": "e" * 32, "correlation": "c0ffee00" + "1" * 24, "trace_id": "c0ffee00" + "1" * 24}
    (folder / "webhooks.log").write_text(
        line(9, event="odd", **ids) + line(10, event="odd", **{**ids, "trace_id": "t" * 32})
    )
    same, other = shown("--grep", "odd")
    assert same.endswith("correlation=c0ffee00")
    assert other.endswith(f"correlation=c0ffee00 trace_id={'t' * 32}")
    assert all(
        one in text for text in shown("--grep", "odd", "-o", "json") for one in (ids["event_id"], ids["correlation"])
    )


def test_errors_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path / "none"))
    result = CliRunner().invoke(app, ["logs"], prog_name="moorage")
    assert (result.exit_code, "no logs: expected a `moorage up`" in result.output) == (1, True)


@pytest.mark.usefixtures("folder")
def test_a_wrong_expression_is_refused() -> None:
    result = CliRunner().invoke(app, ["logs", "--grep", "("], prog_name="moorage")
    assert (result.exit_code, "--grep: invalid value '('" in result.output) == (2, True)


@pytest.fixture
def following(folder: Path) -> Iterator[tuple[list[str], Path]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "moorage.cli", "logs", "--follow", "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MOORAGE_STATE_DIR": str(folder.parent)},
    )
    found: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda out: found.extend(iter(out.readline, "")), args=(process.stdout,))
    reader.start()
    yield found, folder
    process.terminate()
    process.wait()
    reader.join()
    process.stdout.close()


async def test_it_follows_files_that_are_rotated_and_new_ones(following: tuple[list[str], Path]) -> None:
    found, folder = following
    await until(lambda: len(found) == 6)
    path = folder / "services.log"
    with path.open("a") as file:
        file.write(line(6, event="before.rotation"))
    assert rotate(path, 1)
    with path.open("a") as file:
        file.write(line(7, event="after.rotation"))
    await until(lambda: len(found) == 8)
    (folder / "query.log").write_text(line(8, event="new.process"))
    await until(lambda: len(found) == 9)
    assert [json.loads(one)["event"] for one in found[6:]] == ["before.rotation", "after.rotation", "new.process"]


def test_a_rotation_loses_nothing_and_the_child_keeps_its_file(tmp_path: Path) -> None:
    path = tmp_path / "services.log"
    with path.open("ab", buffering=0) as child:
        child.write(line(1, event="one").encode())
        assert not rotate(path, 1000)
        assert rotate(path, 10)
        child.write(line(2, event="two").encode())
        assert path.read_text() == line(2, event="two"), "it writes to the beginning of the emptied file"
    assert earlier(path).read_text() == line(1, event="one")
    assert [one.fields["event"] for one in merged([LogFile(path).read()])] == ["one", "two"]
    assert rotate(path, 10)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["services.log", "services.log.1"], "one earlier file"


def test_a_full_disk_empties_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "services.log"
    path.write_text(line(1, event="one"))

    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space"):
        rotate(path, 1)
    assert path.stat().st_size == 0
