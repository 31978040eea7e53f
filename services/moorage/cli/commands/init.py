"""`moorage init`."""

from __future__ import annotations

import keyword
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from moorage.cli.errors import CliError, UsageError
from moorage.cli.local.services import examples
from moorage.cli.local.wheels import PACKED, pack
from moorage.cli.render import output


class Project(StrEnum):
    """The kind of project."""

    PROBE = "probe"
    DEPLOYER = "deployer"


_TEMPLATES: Final = Path(__file__).resolve().parents[1] / "templates"
_SUFFIX: Final = ".txt"  # so that nothing takes a template for a program of Moorage's own
_HIDDEN: Final = "dot-"
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_TAKEN: Final = frozenset({*PACKED.values(), "faststream", "httpx", "moorage", "pytest", "tests"})
_FOLDERS: Final = {"main.py": "src/@PACKAGE@", "test_project.py": "tests"}
_RENAMED: Final = {"test_project.py": "test_@PACKAGE@.py"}


def init(
    project: Annotated[Project, typer.Argument(help="The kind of project.", show_default=False)],
    name: Annotated[
        Path | None,
        typer.Argument(help="The folder, whose name is that of the project. `.` is this one.", show_default=False),
    ] = None,
    *,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="The folder, as NAME.", show_default=False, hidden=True)
    ] = None,
) -> None:
    """Write a small project for a probe or a deployer of your own.

    It is a Python package that installs and runs as it is, with its test, a Dockerfile, a unit of systemd and a README.
    It is built with moorage-sdk, whose wheels it has. Files that exist are not replaced. For example: `moorage init
    probe disk-probe`.
    """
    if name is not None and folder is not None:
        raise UsageError("--dir: the folder is named twice: expected NAME alone")
    place = name or folder or Path(f"my-{project.value}")
    called = place.resolve().name.lower().replace("_", "-")
    _check(called, place)
    words = {"@NAME@": called, "@PACKAGE@": called.replace("-", "_"), "@PROJECT@": project.value}
    files = {place / path: text for path, text in _files(project, words).items()}
    wheels = place / "wheels"
    if existing := [str(path) for path in (*files, wheels) if path.exists()]:
        raise CliError(f"{existing[0]}: already exists: expected another folder")
    try:
        for path, text in sorted(files.items()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            output.line(f"{path} created")
        wheels.mkdir()
        for one in PACKED:
            output.line(f"{pack(one, wheels)} created")
    except OSError as error:
        raise CliError(f"{error.filename}: cannot be written: {error.strerror}") from None
    output.line(f"To try it: cd {place} && uv sync && uv run {called} --help")


def _files(project: Project, words: dict[str, str]) -> dict[Path, str]:
    """Return the files of a project by their paths."""
    found = {Path("src/@PACKAGE@/__init__.py"): f'"""A {project.value} for Moorage."""\n'}
    if project is Project.DEPLOYER:
        program = (examples() / "deployer.py").read_text("utf-8")
        program = program.replace("examples/deployer", "deployer/@NAME@").replace("python deployer.py", "@NAME@")
        found[Path("src/@PACKAGE@/main.py")] = program
    for template in (*(_TEMPLATES / "shared").iterdir(), *(_TEMPLATES / project.value).iterdir()):
        path = template.name.removesuffix(_SUFFIX)
        hidden = f".{path.removeprefix(_HIDDEN)}" if path.startswith(_HIDDEN) else path
        text = template.read_text("utf-8")
        if path == "Dockerfile" and project is Project.DEPLOYER:
            # The SDK's deployer ends by SIGTERM itself.
            text = re.sub(r"# Python as .*\nSTOPSIGNAL .*\n", "", text)
        found[Path(_FOLDERS.get(path, ".")) / _RENAMED.get(path, hidden)] = text
    return {Path(_filled(str(path), words)): _filled(text, words) for path, text in found.items()}


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _check(name: str, place: Path) -> None:
    package = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(package):
        rule = "must consist of letters, digits and -, and begin with a letter, because the package has this name"
        raise UsageError(f"NAME: invalid value {str(place)!r}: {rule}")
    if package in _TAKEN or package in sys.stdlib_module_names:
        raise UsageError(f"NAME: invalid value {str(place)!r}: must not be the name of another package, {package}")
