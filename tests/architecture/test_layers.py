"""Which packages may import which, and what the core must not do."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.architecture.files import ROOT, files, name, tree
from tests.support.tables import table

# Modules with which a decision would depend on time, chance, the machine or external state.
_IMPURE_MODULES = frozenset(
    [
        "asyncio",
        "aiokafka",
        "concurrent",
        "faststream",
        "http",
        "httpx",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "platform",
        "random",
        "secrets",
        "select",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "structlog",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "uvicorn",
    ]
)
_IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "id", "hash"})
_IMPURE_METHODS = frozenset({"now", "utcnow", "today", "getrandbits"})


def _impurities(source: str) -> list[str]:
    """The parts of a module's source that make its results depend on more than its arguments."""
    found = []
    tree = ast.parse(source)
    # `hash` is allowed there. Elsewhere its value, which differs between processes, could affect a result.
    hashing = {
        id(call)
        for method in ast.walk(tree)
        if isinstance(method, ast.FunctionDef) and method.name == "__hash__"
        for call in ast.walk(method)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [f"{node.lineno}: import {a.name}" for a in names if a.name.split(".")[0] in _IMPURE_MODULES]
            case ast.ImportFrom(module="urllib.parse", level=0):
                pass  # it parses text; the rest of that package opens connections
            case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] in _IMPURE_MODULES:
                found.append(f"{node.lineno}: from {module}")
            case ast.Call(func=ast.Name(id=called)) if called in _IMPURE_CALLS and id(node) not in hashing:
                found.append(f"{node.lineno}: {called}()")
            case ast.Call(func=ast.Attribute(attr=called)) if called in _IMPURE_METHODS:
                found.append(f"{node.lineno}: .{called}()")
            case ast.AsyncFunctionDef() | ast.Await() | ast.Global():
                found.append(f"{node.lineno}: {type(node).__name__}")
            case _:
                pass
    return found


def test_import_contracts_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_core_is_pure() -> None:
    modules = list(files(".py", under="services/moorage/decide"))
    assert len(modules) > 5
    found = [f"{name(path)}:{line}" for path in modules for line in _impurities(path.read_text("utf-8"))]
    assert found == []


@table(
    "source",
    [
        "import time",
        "import os.path",
        "from random import choice",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.date.today()",
        "def f():\n    import uuid",
        "open('x')",
        "async def f(): ...",
        "def f():\n    global x\n    x = 1",
        "key = hash('n1')",
    ],
)
def test_impurities_are_found(source: str) -> None:
    assert _impurities(source) != []


def test_an_object_may_say_what_its_hash_is() -> None:
    assert _impurities("class Key:\n    def __hash__(self) -> int:\n        return hash(self.text)") == []


def test_pure_code_passes() -> None:
    source = "from datetime import datetime\ndef due(at: datetime, now: datetime) -> bool:\n    return at <= now"
    assert _impurities(source) == []


def test_the_contract_imports_nothing_of_the_services() -> None:
    for path in files(".py", under="schemas/moorage_schemas"):
        for node in ast.walk(tree(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not any(imported.split(".")[0] == "moorage" for imported in names), name(path)
