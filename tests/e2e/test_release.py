"""`ops/release`: the files of a release, made as a dry run, and the workflow that publishes them."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from tests.architecture.files import ROOT

SCRIPT = ROOT / "ops" / "release"
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


def load() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("ops_release", str(SCRIPT))
    spec = importlib.util.spec_from_loader("ops_release", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


release: Any = load()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--dry-run", "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


def test_a_dry_run_makes_every_file_with_its_checksum(made: Path) -> None:
    version = release.project("moorage")["version"]
    names = {file.name for file in made.iterdir()}
    wheels = {f"{stem}-{version}-py3-none-any.whl" for stem in ("moorage", "moorage_schemas", "moorage_sdk")}
    sources = {f"{stem}-{version}.tar.gz" for stem in ("moorage", "moorage_schemas", "moorage_sdk")}
    assert {*wheels, *sources, f"moorage-{version}.cdx.json", "NOTES.md", "SHA256SUMS"} <= names
    lines = (made / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert set(sums) == names - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest


def test_the_bill_of_materials_has_the_packages_of_all_extras_and_none_of_the_tests(made: Path) -> None:
    (file,) = made.glob("*.cdx.json")
    document = json.loads(file.read_text())
    names = {one["name"] for one in document["components"]}
    assert document["bomFormat"] == "CycloneDX"
    assert {"aiokafka", "numpy", "kubernetes-asyncio"} <= names
    assert not {"pytest", "mypy", "playwright"} & names
    assert all(one.get("version") for one in document["components"] if one["name"] != "moorage")


def test_the_bill_of_materials_is_the_same_each_time(tmp_path: Path) -> None:
    release.write_bill_of_materials("0", tmp_path, 0)
    release.write_bill_of_materials("1", tmp_path, 0)
    one, other = sorted(tmp_path.iterdir())
    assert one.read_bytes() == other.read_bytes()


def test_every_place_that_names_the_version_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    version = release.project("moorage")["version"]
    assert list(release.differing(version)) == []
    wrong = list(release.differing("9.9.9"))
    assert len(wrong) >= len(release.PROJECTS) + len({place for place, _ in release.PLACES})
    monkeypatch.setattr(release, "PLACES", (("README.md", r"^no such line (\S+)$"),))
    assert list(release.differing(version)) == ["README.md: no version"]


@pytest.mark.parametrize("tag", ["v0.0.1", "0.1.0"])
def test_a_tag_must_fit_the_version(tag: str) -> None:
    with pytest.raises(release.Refused, match="--tag: invalid value"):
        release.checked_version(tag, dry_run=True)


def test_a_release_needs_a_clean_checkout_and_a_section_of_the_changelog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "git", lambda *_: " M README.md")
    with pytest.raises(release.Refused, match="uncommitted changes"):
        release.checked_version("", dry_run=False)
    monkeypatch.setattr(release, "git", lambda *_: "")
    monkeypatch.setattr(release, "notes", lambda _: "")
    with pytest.raises(release.Refused, match=r"CHANGELOG\.md: no section"):
        release.checked_version("", dry_run=False)


def test_the_notes_are_the_section_of_the_version() -> None:
    notes = release.notes("0.1.0")
    assert notes.startswith("The first version.")
    assert "\n## " not in notes
    assert release.notes("9.9.9") == ""


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--dry-run", "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "expected an empty folder" in done.stderr) == (1, True)


# The workflow


def test_the_workflow_calls_the_script_and_publishes_only_for_a_tag() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    jobs = workflow["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    calls = [one for one in commands if "ops/release" in one]
    assert len(calls) == 2
    flags = {flag for call in calls for flag in re.findall(r"--[a-z-]+", call)}
    assert flags <= set(re.findall(r'"(--[a-z-]+)"', SCRIPT.read_text("utf-8")))
    assert jobs["publish"]["if"] == "github.event_name == 'push'"
    for step in jobs["image"]["steps"]:
        text = json.dumps(step)
        if "cosign sign" in text or "helm push" in text or "login-action" in text or '"push": true' in text:
            assert step["if"] == "github.event_name == 'push'", text


def test_the_workflow_has_no_credentials_of_its_own() -> None:
    text = WORKFLOW.read_text("utf-8")
    assert set(re.findall(r"secrets\.(\w+)", text)) == {"REGISTRY_USERNAME", "REGISTRY_PASSWORD"}
    assert set(re.findall(r"vars\.(\w+)", text)) == {"CONTAINER_REGISTRY"}
