"""Hooks, the development container and the workflow run the same checks as the Makefile."""

from __future__ import annotations

import json
import re
import tomllib

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


def test_the_container_for_developers_is_set_up_as_a_clone_is() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert container["postCreateCommand"] == "make setup"
    version = container["image"].rpartition(":")[2]
    assert OLDEST is not None
    assert minor(version) >= minor(OLDEST[1])
