"""Hooks, the development container and the workflow run the same checks as the Makefile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.architecture.files import ROOT

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
OLDEST = re.search(
    r">=(3\.\d+)", tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
)


def minor(version: str) -> int:
    return int(version.partition(".")[2])


def test_hooks_check_what_make_check_checks() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local", "a hook of another repository has versions of its own"
    called = {" ".join(hook["entry"].split()[:1]) for hook in repository["hooks"]}
    target = re.search(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert target is not None
    checked = {f".venv/bin/{name}" for name in re.findall(r"\$\(BIN\)/([\w-]+)", target[1])}
    assert len(checked) == len(("ruff", "mypy", "lint-imports"))
    assert checked <= called
    for hook in repository["hooks"]:
        assert (ROOT / hook["entry"].split()[0]).exists(), hook["id"]


def test_the_workflow_runs_make_test_on_each_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    job = jobs["test"]
    pythons = job["strategy"]["matrix"]["python"]
    assert OLDEST is not None
    assert minor(pythons[0]) == minor(OLDEST[1]), "the oldest that is promised"
    assert len(pythons) > 1
    assert [step["run"] for step in job["steps"] if "run" in step] == ["make test PYTHON=python"]
    assert [step["run"] for step in jobs["test-all"]["steps"] if "run" in step] == ["make test-all PYTHON=python"]


@pytest.mark.parametrize(
    ("name", "options", "program", "nothing"),
    [
        ("soak", "soak", "soak", ("--check",)),
        ("upgrade", "drill", "upgrade-drill", ("--dry-run", "--folder")),
    ],
)
def test_the_nightly_workflow_gives_programs_options_that_they_have(
    tmp_path: Path, name: str, options: str, program: str, nothing: tuple[str, ...]
) -> None:
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text("utf-8"))["jobs"][name]
    (command,) = [step["run"] for step in job["steps"] if "run" in step]
    turns = job["strategy"]["matrix"]["include"]
    assert turns
    for turn in turns:
        shell = ["bash", "-ec", f"{command.replace('${{ matrix.' + options + ' }}', turn[options])} --dry-run"]
        made = subprocess.run(
            shell, cwd=ROOT, env={**os.environ, "GITHUB_RUN_NUMBER": "7"}, capture_output=True, text=True, check=True
        )
        given = made.stdout.rpartition(f"ops/{program} ")[2].partition("\n")[0].split()
        # With these it reads its options and runs nothing.
        words = [sys.executable, str(ROOT / "ops" / program), *given, *nothing, str(tmp_path)]
        assert subprocess.run(words, check=False).returncode == 0, given
        assert "--folder" in given, "this is what is uploaded"


def test_the_container_for_developers_is_set_up_as_a_clone_is() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert container["postCreateCommand"] == "make setup"
    version = container["image"].rpartition(":")[2]
    assert OLDEST is not None
    assert minor(version) >= minor(OLDEST[1])
