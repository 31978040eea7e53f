"""A clone alone is sufficient: documents of others are only used if they are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.files import ROOT
from tests.support import documents

DOCUMENTED = ("tests/e2e/test_documents.py", "tests/e2e/test_documents_managed.py")


def collected(**given: str) -> subprocess.CompletedProcess[str]:
    """The tests of pages that pytest collects with only these variables about documents."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in (documents.VARIABLE, "PYTEST_ADDOPTS")
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *DOCUMENTED],
        cwd=ROOT,
        env=inherited | given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_our_own_pages_are_tested_and_no_others_where_none_are_named() -> None:
    done = collected()
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.split("::")[1] for line in done.stdout.splitlines() if "::" in line} == {"TestOwn"}


def test_documents_that_are_named_and_not_there_end_the_run(tmp_path: Path) -> None:
    done = collected(**{documents.VARIABLE: str(tmp_path)})
    assert done.returncode != 0
    assert f"{documents.VARIABLE}: Invalid value: '{tmp_path}': must be a folder with one document" in done.stdout


def test_documents_are_found_by_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(documents.VARIABLE, str(tmp_path))
    for name in ("001_b.txt", "000_a.txt", "002_c.txt"):
        (tmp_path / name).write_text("kubectl taint nodes n1 a=b:NoSchedule\n", "utf-8")
    found = documents.given("000", "002")
    assert found is not None
    assert [path.name for path in found.paths] == ["000_a.txt", "002_c.txt"]
    assert [(one.document, one.text) for one in found.commands] == [
        (number, "kubectl taint nodes n1 a=b:NoSchedule") for number in ("000", "002")
    ]
    monkeypatch.delenv(documents.VARIABLE)
    assert documents.given("000", "002") is None
