"""`moorage init` writes projects that run as they are."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from moorage.cli.app import app


def init(*words: str) -> Result:
    return CliRunner().invoke(app, ["init", *words])


@pytest.mark.parametrize("project", ["probe", "deployer"])
def test_a_project_runs_and_passes_its_tests(project: str, tmp_path: Path) -> None:
    folder = tmp_path / f"rack-{project}"
    done = init(project, "--dir", str(folder))
    assert done.exit_code == 0, done.output
    names = {"README.md", f"{project}.py", "pyproject.toml", f"test_{project}.py"}
    assert {Path(line.split()[0]).name for line in done.stdout.splitlines()} == names
    assert {path.name for path in folder.iterdir()} == names
    for path in folder.iterdir():
        assert "@NAME@" not in path.read_text("utf-8"), path
    described = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert (described["name"], described["dependencies"]) == (f"rack-{project}", ["moorage-sdk"])
    assert f"{project}/rack-{project}" in (folder / f"{project}.py").read_text("utf-8")
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    program = subprocess.run(
        [sys.executable, f"{project}.py", "--help"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert program.returncode == 0, program.stderr


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("mine")
    done = init("probe", "--dir", str(tmp_path))
    assert done.exit_code == 1
    assert "already exists" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["probe.py"]


def test_a_folder_that_is_no_name_of_a_project(tmp_path: Path) -> None:
    done = init("probe", "--dir", str(tmp_path / "my probe"))
    assert done.exit_code == 2
    assert "--dir: invalid value" in done.output
