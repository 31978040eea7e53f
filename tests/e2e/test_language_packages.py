"""The packages for TypeScript and Go: what is published of them, and their own tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.examples import GO, TYPESCRIPT, languages, typescript

from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionReported
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import WorkloadBound


def run(*words: str, folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("language", [one for one in languages() if one == "go"])
def test_the_module_of_go(language: str) -> None:
    assert run("gofmt", "-l", ".", folder=GO) == "", f"{language} is not formatted"
    run("go", "vet", "./...", folder=GO)
    assert "ok" in run("go", "test", "./...", folder=GO)


@pytest.mark.parametrize(
    ("struct", "model"), [("Binding", WorkloadBound), ("Eviction", EvictionDecided), ("Report", ConditionReported)]
)
def test_the_types_of_go_are_those_of_the_contract(struct: str, model: type[Model]) -> None:
    code = "\n".join(path.read_text("utf-8") for path in GO.glob("*.go"))
    (body,) = re.findall(rf"^type {struct} struct {{\n(.*?)^}}", code, re.MULTILINE | re.DOTALL)
    tags = set(re.findall(r'json:"(\w+)', body))
    assert tags
    assert tags <= {str(field.alias) for field in model.model_fields.values()}


@pytest.mark.parametrize("language", [one for one in languages() if one == "typescript"])
def test_the_package_of_typescript(language: str, tmp_path: Path) -> None:
    built = typescript()
    run("node", "--test", str(built / "tests"), folder=tmp_path)
    package = tmp_path / language
    shutil.copytree(TYPESCRIPT, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    shutil.copytree(built, package / "dist")
    (packed,) = json.loads(run("npm", "pack", "--ignore-scripts", "--json", folder=package))
    assert {one["path"] for one in packed["files"]} == {
        *("LICENSE", "README.md", "package.json", "src/index.ts", "src/contract.ts"),
        *(f"dist/src/{name}{end}" for name in ("index", "contract") for end in (".js", ".d.ts")),
    }
    # Installed as npm unpacks it, the package is found by its name.
    user = tmp_path / "user"
    installed = user / "node_modules" / "moorage-sdk"
    installed.mkdir(parents=True)
    run("tar", "-xzf", str(package / packed["filename"]), "-C", str(installed), "--strip-components=1", folder=user)
    program = 'import { parseTarget, targetKey } from "moorage-sdk"; console.log(targetKey(parseTarget("Node/n1")));'
    assert run("node", "--input-type=module", "-e", program, folder=user) == "Node/n1\n"


def test_versions_agree() -> None:
    package = json.loads((TYPESCRIPT / "package.json").read_text("utf-8"))
    lock = json.loads((TYPESCRIPT / "package-lock.json").read_text("utf-8"))
    sdk = (TYPESCRIPT.parent / "pyproject.toml").read_text("utf-8")
    assert f'version = "{package["version"]}"' in sdk
    assert (lock["name"], lock["version"]) == (package["name"], package["version"])
