"""`moorage init` writes projects that install, run and pass their tests as they are."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from tests.architecture.files import ROOT
from typer.testing import CliRunner, Result

from moorage.cli.app import app


def init(*words: str) -> Result:
    return CliRunner().invoke(app, ["init", *words])


def run(*words: str, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MOORAGE_", "PYTEST"))}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("project", ["probe", "deployer"])
def test_a_project_installs_and_passes_its_tests(project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = init(project, f"Rack_{project}")
    assert done.exit_code == 0, done.output
    folder, name, package = tmp_path / f"Rack_{project}", f"rack-{project}", f"rack_{project}"
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert written == {
        *("README.md", "pyproject.toml", "Dockerfile", ".gitignore", ".dockerignore", f"{name}.service"),
        *(f"src/{package}/__init__.py", f"src/{package}/main.py", f"tests/test_{package}.py"),
        *("wheels/moorage_schemas-0.1.0-py3-none-any.whl", "wheels/moorage_sdk-0.1.0-py3-none-any.whl"),
    }
    printed = {line.removesuffix(" created") for line in done.stdout.splitlines() if line.endswith(" created")}
    assert printed == {f"Rack_{project}/{path}" for path in written}
    for path in folder.rglob("*"):
        assert path.is_dir() or path.suffix == ".whl" or "@" not in path.read_text("utf-8").replace("@deployer", ""), (
            path
        )
    described = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert (described["name"], described["dependencies"]) == (name, ["moorage-sdk"])
    assert f"{project}/{name}" in (folder / "src" / package / "main.py").read_text("utf-8")
    assert ("STOPSIGNAL" in (folder / "Dockerfile").read_text("utf-8")) is (project == "probe")

    # Built by the backend itself: an isolated build would fetch it. What the SDK rests on is this environment's own.
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist", folder=folder)
    venv.create(folder / ".venv", with_pip=False)
    python = str(folder / ".venv" / "bin" / "python")
    install = (str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--offline", "--no-deps")
    wheels = [str(path) for path in (*folder.glob("dist/*.whl"), *folder.glob("wheels/*.whl"))]
    run(*install, "--python", python, *wheels, folder=folder)
    (site,) = (folder / ".venv").glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    origin = "import moorage_sdk, moorage_schemas; print(moorage_sdk.__file__, moorage_schemas.__file__)"
    assert run(python, "-c", origin, folder=folder).count(str(site)) == 2
    assert "usage:" in run(str(folder / ".venv" / "bin" / name), "--help", folder=folder)
    assert "passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=folder)


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n", " ", dockerfile.read_text("utf-8")).splitlines()
    found = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in found]


@pytest.mark.parametrize("project", ["probe", "deployer"])
def test_the_image_of_a_project(project: str, tmp_path: Path) -> None:
    """Its sources exist, its base is that of Moorage's own image, and it does not run as root."""
    folder = tmp_path / "rack"
    assert init(project, str(folder)).exit_code == 0
    found = instructions(folder / "Dockerfile")
    bases = [rest for word, rest in instructions(ROOT / "ops" / "Dockerfile") if word == "FROM"]
    assert [rest for word, rest in found if word == "FROM"] == [bases[-1]]
    copied = [rest.split()[:-1] for word, rest in found if word == "COPY"]
    assert copied
    for source in (one for sources in copied for one in sources):
        assert (folder / source).exists(), source
    # What pip needs must not be ignored by the build.
    ignored = (folder / ".dockerignore").read_text("utf-8").split()
    needed = (
        "pyproject.toml",
        "README.md",
        "src/rack/main.py",
        *(f"wheels/{path.name}" for path in (folder / "wheels").iterdir()),
    )
    for path in needed:
        assert not any(fnmatch.fnmatch(part, pattern) for part in Path(path).parts for pattern in ignored), path
    (install,) = (rest for word, rest in found if word == "RUN" and "pip install" in rest)
    assert "--find-links wheels ." in install
    words = [word for word, _ in found]
    (identity,) = (rest for word, rest in found if word == "USER")
    user, group = map(int, identity.split(":"))
    assert min(user, group) > 0
    assert not {"RUN", "COPY"} & set(words[words.index("USER") :])
    # The folder in which it runs belongs to that user.
    place = [rest for word, rest in found if word == "WORKDIR"][-1]
    assert f"install --directory --owner={user} --group={group} {place}" in [
        rest for word, rest in found if word == "RUN"
    ]
    scripts = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    (entry,) = (rest for word, rest in found if word == "ENTRYPOINT")
    assert json.loads(entry) == list(scripts)


@pytest.mark.parametrize("project", ["probe", "deployer"])
def test_the_unit_of_a_project_runs_its_command(project: str, tmp_path: Path) -> None:
    folder = tmp_path / "rack"
    assert init(project, str(folder)).exit_code == 0
    unit = (folder / "rack.service").read_text("utf-8")
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *words = command.split()
    assert program == "/opt/rack/bin/rack"
    assert f"{Path(program).parent}/pip install --find-links wheels ." in unit
    text = (folder / "src" / "rack" / "main.py").read_text("utf-8")
    assert all(f'"{word}"' in text for word in words if word.startswith("--"))


def test_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "disk-probe"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert init("probe", ".").exit_code == 0
    assert (folder / "src" / "disk_probe" / "main.py").exists()
    assert init("deployer", "--dir", str(tmp_path / "mine")).exit_code == 0, "the older form"
    assert (tmp_path / "mine" / "mine.service").exists()


def test_nothing_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("mine")
    done = init("probe", str(folder))
    assert done.exit_code == 1
    assert "pyproject.toml: already exists: expected another folder" in done.output
    assert [path.name for path in folder.iterdir()] == ["pyproject.toml"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("my probe", "must consist of letters, digits and -"),
        ("7up", "begin with a letter"),
        ("class", "begin with a letter"),
        ("json", "must not be the name of another package, json"),
        ("moorage-sdk", "must not be the name of another package, moorage_sdk"),
    ],
)
def test_names_that_are_none_of_a_project(tmp_path: Path, name: str, rule: str) -> None:
    done = init("probe", str(tmp_path / name))
    assert done.exit_code == 2
    assert "NAME: invalid value" in done.output
    assert rule in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_named_twice(tmp_path: Path) -> None:
    done = init("probe", str(tmp_path / "a"), "--dir", str(tmp_path / "b"))
    assert (done.exit_code, "--dir: the folder is named twice" in done.output) == (2, True)
