"""The packages of Moorage have wheels for all systems and versions of Python that the README names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

import pytest
from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import canonicalize_name, parse_wheel_filename
from tests.architecture.files import ROOT

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
GLIBC = range(36, 16, -1)
SYSTEMS = {
    "Linux on x86-64": ("linux", "x86_64", [*(f"manylinux_2_{n}_x86_64" for n in GLIBC), "manylinux2014_x86_64"]),
    "Linux on arm64": ("linux", "aarch64", [*(f"manylinux_2_{n}_aarch64" for n in GLIBC), "manylinux2014_aarch64"]),
    "macOS on Apple silicon": ("darwin", "arm64", list(mac_platforms((14, 0), "arm64"))),
}


@cache
def packages() -> dict[str, list[dict[str, Any]]]:
    """The locked packages by name. Some have another version for an older Python."""
    found: dict[str, list[dict[str, Any]]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]:
        found.setdefault(package["name"], []).append(package)
    return found


def required(environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The packages that `pip install moorage[every extra]` installs in an environment."""
    waiting: list[tuple[str, tuple[str, ...]]] = [("moorage", ())]
    waiting += [("moorage", (extra,)) for extra in packages()["moorage"][0].get("optional-dependencies", {})]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for package in packages()[name]:
            markers = package.get("resolution-markers", [])
            if markers and not any(Marker(marker).evaluate(environment) for marker in markers):
                continue
            yield package
            rests_on = [*package.get("dependencies", [])]
            for extra in extras:
                rests_on += package.get("optional-dependencies", {}).get(extra, [])
            for one in rests_on:
                if "marker" not in one or Marker(one["marker"]).evaluate(environment):
                    waiting.append((one["name"], tuple(one.get("extra", ()))))


def tags(version: tuple[int, int], platforms: list[str]) -> set[Tag]:
    interpreter = f"cp{version[0]}{version[1]}"
    return {*cpython_tags(version, platforms=platforms), *compatible_tags(version, interpreter, platforms)}


@pytest.mark.parametrize("python", PYTHONS, ids=lambda version: ".".join(map(str, version)))
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_package_has_a_wheel(python: tuple[int, int], system: str) -> None:
    platform, machine, names = SYSTEMS[system]
    version = ".".join(map(str, python))
    environment = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": platform,
        "platform_machine": machine,
        "platform_system": "Linux" if platform == "linux" else "Darwin",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    wanted = tags(python, names)
    lacking = {
        package["name"]
        for package in required(environment)
        if "registry" in package["source"]
        and not any(
            wanted & parse_wheel_filename(unquote(wheel["url"].rpartition("/")[2]))[3]
            for wheel in package.get("wheels", [])
        )
    }
    assert lacking == set()


def test_the_readme_and_the_metadata_name_them() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {one.rpartition(" ")[2] for one in project["classifiers"] if one.startswith("Programming Language")}
    assert named == {".".join(map(str, version)) for version in PYTHONS}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert set(re.findall(r'"(3\.\d+)"', workflow)) == named
    for text in ("Python 3.11 to 3.14", *SYSTEMS):
        assert text in readme.replace("\n", " "), text


def test_names_in_the_lock_are_canonical() -> None:
    assert all(name == canonicalize_name(name) for name in packages())
