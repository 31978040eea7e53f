"""`moorage init`."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from moorage.cli.errors import USAGE, CliError
from moorage.cli.local.services import examples
from moorage.cli.render import output


class Project(StrEnum):
    """The kind of project."""

    PROBE = "probe"
    DEPLOYER = "deployer"


_TEMPLATES: Final = Path(__file__).resolve().parents[1] / "templates"
_SUFFIX: Final = ".txt"  # so that nothing takes a template for a program of Moorage's own
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_PLACE: Final = "@NAME@"


def init(
    project: Annotated[Project, typer.Argument(help="The kind of project.", show_default=False)],
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="The folder. By default `my-probe` or `my-deployer`.", show_default=False),
    ] = None,
) -> None:
    """Write a small project for a probe or a deployer of your own.

    It has a program that runs as it is, its test, a README and a pyproject.toml. The program is built with moorage-sdk.
    Files that exist are not replaced.
    """
    place = folder or Path(f"my-{project.value}")
    name = place.resolve().name.lower().replace("_", "-")
    if not _NAME.fullmatch(name):
        raise CliError(
            f"--dir: invalid value {str(place)!r}: its name becomes the name of the project, so it must have letters, "
            "digits and - only",
            code=USAGE,
        )
    files = {
        place / path.name.removesuffix(_SUFFIX): path.read_text("utf-8").replace(_PLACE, name)
        for path in sorted((_TEMPLATES / project.value).iterdir())
    }
    if project is Project.DEPLOYER:
        program = (examples() / "deployer.py").read_text("utf-8")
        files[place / "deployer.py"] = program.replace("examples/deployer", f"deployer/{name}")
    if existing := [str(path) for path in files if path.exists()]:
        raise CliError(f"{existing[0]}: already exists: expected another folder in --dir")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for path, content in sorted(files.items()):
            path.write_text(content, "utf-8")
            output.line(f"{path} created")
    except OSError as error:
        raise CliError(f"{error.filename}: cannot be written: {error.strerror}") from None
