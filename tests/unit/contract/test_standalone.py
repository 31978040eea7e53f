"""`moorage-schemas` needs only pydantic."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import moorage_schemas

CONTRACT = Path(moorage_schemas.__file__).parent.parent
UV = Path(sys.executable).with_name("uv")

# Pydantic and its own dependencies.
ALLOWED = ("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection")

IMPORT_ALL = """
import importlib, pkgutil, sys
import moorage_schemas
names = [m.name for m in pkgutil.walk_packages(moorage_schemas.__path__, "moorage_schemas.")]
for name in names:
    importlib.import_module(name)
from moorage_schemas.condition import ConditionReported
ConditionReported.model_validate_json(
    '{"target":{"kind":"Node","name":"n1"},"type":"Ready","status":"True","observedTime":"2026-01-01T00:00:00Z"}'
)
print(len(names))
"""

BLOCK = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top.startswith("_sysconfigdata"):
            return None
        if top == "moorage_schemas" or top in {ALLOWED!r}:
            return None
        raise ImportError(f"{{name}} is none of the standard library, pydantic and moorage_schemas")
sys.meta_path.insert(0, Block())
"""


def test_imports_pydantic_and_the_standard_library_only() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", BLOCK + IMPORT_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 15


def test_the_block_blocks() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", BLOCK + "import aiokafka"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "aiokafka is none of" in done.stderr


def test_declares_pydantic_only() -> None:
    declared = tomllib.loads((CONTRACT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert [re.split(r"[^A-Za-z0-9_-]", requirement)[0] for requirement in declared] == ["pydantic"]


def test_installs_alone_in_a_fresh_environment(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    _run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv")
    _run(UV, "pip", "install", "--quiet", "--python", python, CONTRACT)
    installed = _run(UV, "pip", "freeze", "--python", python)
    names = {re.split(r"[=@ ]", line)[0].replace("-", "_") for line in installed.splitlines() if line}
    assert names == {"moorage_schemas", *ALLOWED}
    assert int(_run(python, "-I", "-c", IMPORT_ALL)) >= 15
    typed = _run(
        python,
        "-I",
        "-c",
        "import moorage_schemas, pathlib; print(*pathlib.Path(moorage_schemas.__path__[0]).glob('py.typed'))",
    )
    assert typed.strip().endswith("py.typed")


def _run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
