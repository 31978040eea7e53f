"""Runs programs to their end."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.forks import ROOT, fork
from tests.support.forks import moorage as _moorage


@dataclass(frozen=True)
class Done:
    """The result of a program."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output parsed as JSON."""
        return json.loads(self.out)


async def program(
    *words: str, env: Mapping[str, str] | None = None, text: str | None = None, seconds: float = 240.0
) -> Done:
    """Run a program to its end.

    Args:
        words: the program and its arguments.
        env: additional environment variables.
        text: its standard input.
        seconds: the time after which it is killed and the call fails.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        env={**os.environ, **(env or {})},
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(None if text is None else text.encode())
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return Done(process.returncode or 0, out.decode(), err.decode())


async def moorage(
    *words: str, env: Mapping[str, str] | None = None, text: str | None = None, seconds: float = 240.0
) -> Done:
    """Run `moorage` to its end, like `program`, but in a forked process."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write((text or "").encode())
        stdin.seek(0)
        process = await fork(_moorage, *words, environment=env or {}, stdout=out, stderr=err, stdin=stdin)
        try:
            async with asyncio.timeout(seconds):
                code = await process.wait()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return Done(code, out.read().decode(), err.read().decode())
