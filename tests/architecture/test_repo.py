"""Rules for the repository."""

from __future__ import annotations

import ast
import re
import tokenize
import tomllib
from pathlib import Path

from tests.architecture.files import ROOT, files, name, tree
from tests.support.tables import table

# A module of the services may be longer than this only with a reason.

# Composed of parts, so that the test does not find this file.
PATHS_IN_CONTAINERS = {"tests/support/brokers.py": "where the script lies that starts Kafka in a container"}
_MACHINE_PATHS = re.compile("/" + r"(work|root)/|/" + r"home/[a-z]|/" + r"tmp/[A-Za-z0-9]")
_REGISTRIES = re.compile(
    "|".join(
        f"{host}[.]{domain}"
        for host, domain in [
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("repo1?[.]maven", "(apache[.])?org"),
            ("proxy[.]golang", "org"),
            ("registry[.]npmjs", "org"),
            ("docker", "io"),
            ("ghcr", "io"),
            ("quay", "io"),
        ]
    )
)
_NOQA = re.compile(r"#\s*noqa\b(?P<rest>.*)", re.IGNORECASE)
_NOQA_WITH_REASON = re.compile(r":\s*[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*\s+(- |# )\S.*\S")
_IGNORE = re.compile(r"#\s*type:\s*ignore(?P<rest>.*)")
_IGNORE_WITH_REASON = re.compile(r"\[[a-z-]+(,\s*[a-z-]+)*\]\s+# \S.*\S")


def _unexplained(text: str) -> list[str]:
    """The exceptions from lints and types in Python source without a reason."""
    if not (_NOQA.search(text) or _IGNORE.search(text)):
        return []  # most files, and tokens take time
    found = []
    reader = iter(text.splitlines(keepends=True))
    for token in tokenize.generate_tokens(lambda: next(reader, "")):
        if token.type != tokenize.COMMENT:
            continue
        noqa, ignore = _NOQA.search(token.string), _IGNORE.search(token.string)
        bare = (noqa and not _NOQA_WITH_REASON.match(noqa["rest"])) or (
            ignore and not _IGNORE_WITH_REASON.match(ignore["rest"])
        )
        if bare:
            found.append(f"{token.start[0]}: {token.string}")
    return found


def test_no_paths_of_one_machine() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if path.name != "uv.lock" and name(path) not in PATHS_IN_CONTAINERS and _MACHINE_PATHS.search(line)
    ]
    assert found == []


def test_no_registry_outside_the_lock() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if path.name != "uv.lock" and _REGISTRIES.search(line)
    ]
    assert found == []


def test_every_exception_has_its_reason() -> None:
    found = [f"{name(path)}:{line}" for path in files(".py") for line in _unexplained(path.read_text("utf-8"))]
    assert found == []


@table(
    ("line", "fine"),
    [
        ("x = 1  # noqa: S311 - seeded on purpose", True),
        ("x = 1  # noqa: S311, PLR2004 - seeded on purpose", True),
        ("x = 1  # noqa: S311", False),
        ("x = 1  # noqa", False),
        ("x = 1  # type: ignore[attr-defined]  # a plugin adds it", True),
        ("x = 1  # type: ignore[attr-defined]", False),
        ("x = 1  # type: ignore", False),
        ("x = '# noqa'", True),
    ],
)
def test_what_counts_as_a_reason(line: str, *, fine: bool) -> None:
    assert (_unexplained(line + "\n") == []) is fine


def test_every_module_with_code_defers_its_annotations() -> None:
    wanting = []
    for path in files(".py"):
        body = tree(path).body
        deferred = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in body)
        code = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.AnnAssign)
        if not deferred and any(isinstance(node, code) for node in body):
            wanting.append(name(path))
    assert wanting == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    forbidden = re.compile(r"\bpytest\.(skip|xfail|importorskip)\(|\bmark\.(skip|skipif|xfail)\b")
    found = [name(path) for path in files(".py", under="tests") if forbidden.search(path.read_text("utf-8"))]
    assert found == [name(Path(__file__))] * (name(Path(__file__)) in found)


def test_the_licence_is_there_and_both_distributions_name_it() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert (ROOT / "schemas" / "LICENSE").read_text("utf-8") == text, "the contract is given away alone, too"
    for project in (ROOT / "pyproject.toml", ROOT / "schemas" / "pyproject.toml"):
        assert tomllib.loads(project.read_text("utf-8"))["project"]["license"] == "Apache-2.0"


def test_both_distributions_have_one_version() -> None:
    projects = [ROOT / "pyproject.toml", ROOT / "schemas" / "pyproject.toml"]
    assert len({tomllib.loads(path.read_text("utf-8"))["project"]["version"] for path in projects}) == 1


def test_what_a_submission_must_pass_are_both_tiers() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert script.read_text("utf-8").splitlines()[-2:] == ["make test", "make test-all"]
