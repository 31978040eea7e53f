"""`moorage kafka up|down|status`: the embedded broker by hand."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moorage.runtime.embedded import EmbeddedKafka, answers
from moorage.runtime.embedded.control import status, stop

pytestmark = pytest.mark.kafka

COMMAND = [sys.executable, "-c", "from moorage.cli.commands.kafka import app; app()"]


async def run(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(*COMMAND, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def ask(folder: Path) -> tuple[int, dict[str, Any]]:
    code, out, _ = await run("status", "--data-dir", str(folder), "-o", "json")
    return code, json.loads(out)


async def test_up_status_down(tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path / "kafka"))
    code, answer = await ask(tmp_path / "kafka")
    assert (code, answer["running"], answer["bootstrap"]) == (1, False, None)
    assert not (tmp_path / "kafka").exists(), "looking leaves nothing behind"
    try:
        code, out, err = await run("up", *folder)
        assert (code, await answers(out.strip())) == (0, True), err
        code, answer = await ask(tmp_path / "kafka")
        assert (code, answer["running"], answer["bootstrap"], answer["owner"]) == (0, True, out.strip(), None)
        assert answer["version"] == "4.3.1"
        assert await run("up", *folder) == (0, out, f"kafka is already running (pid {answer['pid']})\n")
        code, text, _ = await run("status", *folder)
        assert code == 0
        assert out.strip() in text
    finally:
        code, _, err = await run("down", *folder)
    assert (code, err) == (0, "kafka stopped\n")
    assert not await answers(out.strip(), patience=1.0)
    assert (await ask(tmp_path / "kafka"))[0] == 1
    assert await run("down", *folder) == (0, "", "kafka was not running\n")


@pytest.mark.parametrize("how", ["signal", "down", "crash"])
async def test_in_the_foreground_it_stays_until_it_is_stopped(tmp_path: Path, how: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "up", "--foreground", "--data-dir", str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    bootstrap = (await process.stdout.readline()).decode().strip()
    assert await answers(bootstrap)
    state = status(tmp_path).state
    assert state is not None
    assert state.owner == process.pid
    if how == "signal":
        process.send_signal(signal.SIGTERM)
    elif how == "down":
        assert await stop(tmp_path)
    else:
        os.kill(state.pid, signal.SIGKILL)
    _, err = await process.communicate()
    assert process.returncode == (1 if how == "crash" else 0), err.decode()
    assert ("ended by itself" in err.decode()) == (how == "crash")
    assert not await answers(bootstrap, patience=1.0)


async def test_what_goes_wrong_is_told_with_exit_code_1_or_2(own_folder: EmbeddedKafka) -> None:
    port, folder = own_folder.port, own_folder.data_dir
    code, out, err = await run("up", "--data-dir", str(folder.parent / "other"), "--port", str(port))
    assert (code, out) == (1, "")
    assert f"cannot listen on port {port}" in err
    code, _, err = await run("up", "--foreground", "--data-dir", str(folder))
    assert code == 1
    assert f"process {own_folder.pid} " in err
    assert (await run("up", "--port", "0"))[0] == 2
    code, _, err = await run("status", "-o", "xml", "--data-dir", str(folder))
    assert code == 2
    assert "'xml'" in err


@pytest.fixture
async def own_folder(tmp_path: Path) -> Any:
    async with EmbeddedKafka(tmp_path / "kafka") as kafka:
        yield kafka
