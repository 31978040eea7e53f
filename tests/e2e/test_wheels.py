"""The wheels: what is in them, and that the command line runs from them, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.architecture.files import ROOT, files, name


@dataclass(frozen=True)
class Wheels:
    """The wheels of the three distributions."""

    moorage: Path
    contract: Path
    sdk: Path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    made = {}
    for project in (ROOT, ROOT / "schemas", ROOT / "sdk"):
        folder = tmp_path_factory.mktemp("wheel")
        # The build backend itself: `uv build` would fetch it anew.
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=project, check=True)
        (made[project],) = folder.glob("*.whl")
    return Wheels(made[ROOT], made[ROOT / "schemas"], made[ROOT / "sdk"])


def _inside(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {one for one in archive.namelist() if ".dist-info/" not in one}


def _sources(folder: str) -> set[str]:
    return {name(path) for path in files(under=folder)}


def test_the_wheel_has_the_programs_and_the_examples_and_nothing_else(wheels: Wheels) -> None:
    programs = {one.removeprefix("services/") for one in _sources("services/moorage")}
    pages = "services/moorage/console"
    shown = {name(path).removeprefix("services/") for path in files(".html", ".css", ".js", ".svg", under=pages)}
    assert {f"moorage/console/{one}" for one in ("templates/fleet.html", "static/htmx.min.js")} <= shown
    examples = {f"moorage/_{one}" for one in _sources("examples")}
    assert "moorage/_examples/fleet/20-nodes.yaml" in examples
    assert _inside(wheels.moorage) == programs | examples | shown


def test_the_wheel_of_the_contract_has_the_contract_and_nothing_else(wheels: Wheels) -> None:
    contract = {one.removeprefix("schemas/") for one in _sources("schemas/moorage_schemas")}
    assert _inside(wheels.contract) == contract | {"moorage_schemas/py.typed"}


def test_the_wheel_of_the_sdk_has_the_sdk_and_nothing_else(wheels: Wheels) -> None:
    sdk = {one.removeprefix("sdk/") for one in _sources("sdk/moorage_sdk")}
    assert _inside(wheels.sdk) == sdk | {"moorage_sdk/py.typed"}


@pytest.fixture(scope="module")
def installed(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment in which the wheels are installed; what they rest on is this one's own."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    install = [str(uv), "pip", "install", "--quiet", "--offline", "--no-deps", "--python", str(python)]
    subprocess.run([*install, str(wheels.moorage), str(wheels.contract), str(wheels.sdk)], check=True)
    # A path file within this folder is not read again, so the checkout's own, which is in it, has no effect.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "rest.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def _run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MOORAGE_", "PYTHON"))}
    environment = {**kept, "MOORAGE_STATE_DIR": str(cwd / "state"), "MOORAGE_GATEWAY_PORT": "1"}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_everything_is_imported_from_the_wheels(installed: Path, tmp_path: Path) -> None:
    program = "import moorage, moorage_schemas as a, moorage_sdk as b; print(moorage.__file__, a.__file__, b.__file__)"
    done = _run(installed / "python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for found in done.stdout.split():
        assert Path(found).is_relative_to(installed.parent)


def test_the_commands_run(installed: Path, tmp_path: Path) -> None:
    done = _run(installed / "moorage", "version", "-o", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"moorage": "unknown"' not in done.stdout
    done = _run(installed / "moorage", "schemas", "--check", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not a checkout of Moorage" in " ".join(done.stderr.replace("│", " ").split())


def test_the_demo_finds_its_examples(installed: Path, tmp_path: Path) -> None:
    program = "from moorage.cli.local.services import examples; print(examples())"
    done = _run(installed / "python", "-c", program, cwd=tmp_path)
    folder = Path(done.stdout.strip())
    assert folder.is_relative_to(installed.parent), done.stderr
    # It goes on from there, and ends for want of a Moorage that runs.
    done = _run(installed / "moorage", "demo", "--attach", cwd=tmp_path)
    assert (done.returncode, "the address of Kafka is not known" in done.stderr) == (1, True), done.stderr
    # What it would apply can be applied by hand, and reaches for the gateway.
    done = _run(installed / "moorage", "apply", "-f", folder / "fleet", cwd=tmp_path)
    assert (done.returncode, "does not answer" in done.stderr) == (1, True), done.stderr
    done = _run(installed / "python", folder / "probe.py", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
