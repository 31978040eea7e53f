"""`ops/release`: the files of a release, made as a dry run, and the workflow that publishes them."""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from tests.architecture.files import ROOT
from tests.support.examples import languages

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


def run(*words: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    given = {**os.environ, **(environment or {})}
    done = subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
    assert len(wrong) >= len(release.PROJECTS) + len({*release.PLACES, *release.SEMVER_PLACES})
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


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        ("0.2.0", "sdk/go/v0.2.0"),
        ("0.2.0a3", "sdk/go/v0.2.0-alpha.3"),
        ("0.2.0b1", "sdk/go/v0.2.0-beta.1"),
        ("10.0.0rc12", "sdk/go/v10.0.0-rc.12"),
    ],
)
def test_the_tag_of_the_go_module(version: str, tag: str) -> None:
    assert release.go_tag(version) == tag


def test_a_tag_of_the_go_module_must_name_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"status": "", "rev-parse --quiet": "b" * 40, "rev-parse HEAD": "a" * 40}
    monkeypatch.setattr(release, "notes", lambda _: "text")
    monkeypatch.setattr(
        release,
        "git",
        lambda *words: next(text for start, text in answers.items() if " ".join(words).startswith(start)),
    )
    with pytest.raises(release.Refused, match=r"sdk/go/v\S+: the tag names commit b{12}: expected a{12}"):
        release.checked_version("", dry_run=False)
    answers["rev-parse --quiet"] = "a" * 40
    assert release.checked_version("", dry_run=False)


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


# The packages of npm and Go


def test_the_same_commit_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    """Also when the tools write other times into their archives."""
    version, stamp = release.project("moorage")["version"], int(release.git("log", "-1", "--format=%ct") or "0")
    for make in (release.package_chart, release.package_npm, release.package_go):
        make(version, tmp_path, stamp)
    again = list(tmp_path.iterdir())
    assert again
    for file in again:
        assert file.read_bytes() == (made / file.name).read_bytes(), file.name


@pytest.mark.parametrize("language", [one for one in languages() if one == "typescript"])
def test_the_package_of_npm_installs_and_is_that_of_the_version(language: str, made: Path, tmp_path: Path) -> None:
    package = made / f"moorage-sdk-{release.semver(release.project('moorage')['version'])}.tgz"
    (tmp_path / "package.json").write_text(f'{{"name": "{language}-user", "version": "1.0.0", "type": "module"}}')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", str(package), folder=tmp_path)
    program = 'import { targetKey, parseTarget } from "moorage-sdk"; console.log(targetKey(parseTarget("Node/n1")));'
    assert run("node", "--input-type=module", "-e", program, folder=tmp_path) == "Node/n1\n"
    described = json.loads((tmp_path / "node_modules" / "moorage-sdk" / "package.json").read_text())
    assert described["version"] == release.semver(release.project("moorage")["version"])
    assert described["repository"]["url"].endswith("github.com/moorage/moorage.git")


@pytest.mark.parametrize("language", [one for one in languages() if one == "go"])
def test_the_go_module_is_one_that_a_module_proxy_can_serve(language: str, made: Path, tmp_path: Path) -> None:
    """The zip is served as a file proxy does, and a module that requires it compiles."""
    version = f"v{release.semver(release.project('moorage')['version'])}"
    served = tmp_path / "proxy" / release.GO_MODULE / "@v"
    served.mkdir(parents=True)
    shutil.copy(made / f"moorage-go-{version[1:]}.zip", served / f"{version}.zip")
    shutil.copy(ROOT / "sdk" / "go" / "go.mod", served / f"{version}.mod")
    (served / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2026-01-01T00:00:00Z"}))
    user = tmp_path / "user"
    user.mkdir()
    (user / "go.mod").write_text(f"module user\n\ngo 1.22\n\nrequire {release.GO_MODULE} {version}\n")
    (user / "main.go").write_text(
        f'package main\n\nimport moorage "{release.GO_MODULE}"\n\n'
        'func main() { println(moorage.ParseTarget("Node/n1").Name) }\n'
    )
    environment = {
        "GOPROXY": f"file://{tmp_path / 'proxy'}",
        "GONOSUMDB": "*",
        "GOFLAGS": "-mod=mod -modcacherw",
        "GOMODCACHE": str(tmp_path / "modules"),
    }
    run(language, "build", "-o", "program", ".", folder=user, environment=environment)
    done = subprocess.run([str(user / "program")], capture_output=True, text=True, check=True)
    assert done.stderr == "n1\n"


# The workflow


def test_the_workflow_calls_the_script_and_publishes_only_for_a_tag() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    jobs = workflow["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    calls = [one for one in commands if "ops/release" in one]
    assert len(calls) == 3
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


def step(name: str) -> str:
    """The command of a step of the job that publishes."""
    steps = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["publish"]["steps"]
    (found,) = (one["run"] for one in steps if one.get("name") == name)
    return str(found)


@pytest.mark.parametrize(("tagged", "code"), [("", 0), ("a" * 40, 0), ("b" * 40, 1)])
def test_the_go_module_is_tagged_once(tagged: str, code: int, tmp_path: Path) -> None:
    gh, calls = tmp_path / "gh", tmp_path / "calls"
    answer = f"echo {tagged}" if tagged else 'echo "{\\"message\\": \\"Not Found\\"}"; exit 1'
    gh.write_text(f'#!/bin/bash\necho "$*" >> {calls}\ncase "$2" in */git/ref/*) {answer} ;; esac\n')
    gh.chmod(0o755)
    environment = {"GH_REPO": "moorage/moorage", "GO_TAG": "sdk/go/v0.1.0", "GITHUB_SHA": "a" * 40}
    done = subprocess.run(
        ["bash", "-e", "-c", step("tag the Go module, or check its tag")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    wanted = f"api repos/moorage/moorage/git/refs -f ref=refs/tags/sdk/go/v0.1.0 -f sha={'a' * 40}"
    assert (wanted in calls.read_text().splitlines()) is (tagged == "")
    assert ("expected " + "a" * 40 in done.stderr) is (code == 1)


@pytest.mark.parametrize(
    ("ref", "tag"), [("v0.2.0", "latest"), ("v0.2.0a1", "next"), ("v0.2.0b1", "next"), ("v0.2.0rc1", "next")]
)
def test_only_a_full_release_is_the_latest_at_npm(ref: str, tag: str, tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/bash\necho "$*"\n')
    npm.chmod(0o755)
    dist = tmp_path / "dist"
    dist.mkdir()
    for name in ("moorage-sdk-0.2.0.tgz", "moorage-0.2.0.tgz", "moorage_sdk-0.2.0.tar.gz"):
        (dist / name).touch()
    done = subprocess.run(
        ["bash", "-e", "-c", step("publish the package of npm, with provenance")],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REF_NAME": ref},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"publish dist/moorage-sdk-0.2.0.tgz --provenance --access public --tag {tag}\n"


def test_only_the_chart_is_pushed_as_a_chart() -> None:
    text = WORKFLOW.read_text("utf-8")
    (pattern,) = re.findall(r"helm push dist/(\S+)", text)
    assert fnmatch.fnmatch("moorage-0.1.0.tgz", pattern)
    assert not fnmatch.fnmatch("moorage-sdk-0.1.0.tgz", pattern)
