"""The code of docs/faststream.md runs, and the example is the page's app."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.files import ROOT

PAGE = (ROOT / "docs" / "faststream.md").read_text("utf-8")
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))

CHECKS = """
import asyncio
import json

import document
import health
import nodes
from faststream.kafka import KafkaBroker
from moorage_sdk.faststream.testing import playing


def test_reports() -> None:
    async def play() -> None:
        async with playing(health.broker) as decisions:
            await decisions.bind("Pod/shop/web", "Node/n1")
        assert [one.type for one in decisions.reports] == ["Healthy"]

    asyncio.run(play())


def test_the_router(capsys) -> None:
    async def play() -> None:
        broker = KafkaBroker()
        broker.include_router(nodes.router)
        async with playing(broker) as decisions:
            await decisions.unbind(await decisions.bind("Pod/shop/web", "Node/rack7-1"))

    asyncio.run(play())
    assert capsys.readouterr().out == "rack7 has work\\nrack7 has less work\\n"


def test_the_document() -> None:
    assert "EvictionDecided" in json.loads(document.document)["components"]["schemas"]
"""


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    assert len(FILES) == PAGE.count("```python"), "each block names its file"
    for name, code in {**FILES, "test_checks.py": CHECKS}.items():
        (tmp_path / name).write_text(code)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MOORAGE_", "PYTEST"))}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_example_is_the_app_of_the_page() -> None:
    example = ast.parse((ROOT / "examples" / "faststream_app.py").read_text("utf-8"))
    page = ast.parse(FILES["app.py"])
    assert [ast.dump(one) for one in example.body[2:]] == [ast.dump(one) for one in page.body]
