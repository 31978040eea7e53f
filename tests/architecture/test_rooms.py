"""Which rooms of the tests need a broker, and which do not."""

from __future__ import annotations

import ast
import re

import pytest
from tests.architecture.files import ROOT, files, name

_FIXTURES = {"broker", "own_broker", "patient_broker"}
_STARTS = {"EmbeddedKafka", "EmbeddedBroker", "DockerBroker", "SharedBroker"}
_SUPPORT = (
    "tests.kafka",
    "tests.e2e",
    "tests.chaos.faults",
    "tests.support.brokers",
    "tests.support.live",
    "tests.support.shared_broker",
)


def fast_rooms() -> list[str]:
    """The rooms of `make test-fast`."""
    (found,) = re.findall(r"^FAST := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return str(found).split()


def brokers_in(source: str) -> set[str]:
    """The signs in a test module that it needs a broker: fixtures, functions that start one, modules that do."""
    found: set[str] = set()
    for part in ast.walk(ast.parse(source)):
        if isinstance(part, ast.arg) and part.arg in _FIXTURES:
            found.add(part.arg)
        elif isinstance(part, ast.Attribute) and part.attr == "kafka" and ast.unparse(part) == "pytest.mark.kafka":
            found.add("pytest.mark.kafka")
        elif isinstance(part, ast.ImportFrom) and part.module:
            found |= {one.name for one in part.names if one.name in _STARTS}
            found |= {part.module} if part.module.startswith(_SUPPORT) else set()
    return found


@pytest.mark.parametrize("room", fast_rooms())
def test_a_fast_room_needs_no_broker(room: str) -> None:
    assert (ROOT / room).is_dir()
    found = {name(path): brokers_in(path.read_text("utf-8")) for path in files(".py", under=room)}
    assert {path: shows for path, shows in found.items() if shows} == {}


def test_what_needs_a_broker_is_marked() -> None:
    tests = {
        path: brokers_in(path.read_text("utf-8")) for path in files(".py", under="tests") if path.name[:5] == "test_"
    }
    assert [name(path) for path, found in tests.items() if found & _FIXTURES and "pytest.mark.kafka" not in found] == []


def test_every_room_of_tests_is_known() -> None:
    rooms = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[:1] not in "_."}
    slow = {"tests/kafka", "tests/e2e", "tests/chaos", "tests/kubectl", "tests/planes"}
    assert rooms == {*fast_rooms(), *slow, "tests/support"}


def test_a_broker_is_seen() -> None:
    assert brokers_in("async def test_x(own_broker): ...") == {"own_broker"}
    assert brokers_in("import pytest\npytestmark = [pytest.mark.kafka]") == {"pytest.mark.kafka"}
    assert brokers_in("from moorage.runtime.embedded import EmbeddedKafka, answers") == {"EmbeddedKafka"}
    assert brokers_in("from tests.support.live import Live") == {"tests.support.live"}
    assert brokers_in("from tests.support.records import record") == set()
