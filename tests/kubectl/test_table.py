"""The table of kubectl cases on a running Moorage, held to what a real kube-apiserver answered.

Each case runs once, some at the same time, before the first of these tests. Where kubectl is missing its tests are not
collected, and the header of the run says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.kubectl import outcome, programs
from tests.kubectl.cases import KARMADACTL, KUBECTL, Case, table
from tests.kubectl.driver import Run, driven
from tests.kubectl.fleet import machines
from tests.kubectl.servers import kubeconfig
from tests.support.brokers import Broker
from tests.support.live import running

# The first test waits until all cases have run.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]

DIFFERS = outcome.reasons("differs")
NOT_YET = outcome.reasons("not_yet")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        found = table() if programs.found() else ()
        metafunc.parametrize("case", found, ids=[case.name for case in found], scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Run]]:
    """What each case showed."""
    folder, prefix = tmp_path_factory.mktemp("table"), f"{RUN}-table-"
    (kubectl,) = programs.found()
    async with (
        running(broker.bootstrap, prefix, folder) as live,
        machines(broker.bootstrap, prefix),
        driven(kubeconfig(live.server, folder / "kubeconfig"), kubectl) as driver,
    ):
        found = await outcome.again(driver, table(), await driver.all(table()))
    yield found


def test_a_case_shows_what_a_real_one_shows(case: Case, runs: dict[str, Run]) -> None:
    found = outcome.differences(case, outcome.recorded(programs.RECORDED)[case.name], runs[case.name])
    told = "\n".join(map(str, found))
    if case.name in NOT_YET:
        assert found, f"{case.name} passes now: take it off not_yet.yaml"
    elif case.name in DIFFERS:
        assert found, f"{case.name} does not differ: take it off differs.yaml"
    else:
        assert not found, f"{case.name}\n{told}"


def test_every_case_has_an_answer() -> None:
    recorded = outcome.recorded(programs.RECORDED)
    assert recorded.keys() == {case.name for case in table()}
    assert [case.name for case in table() if len(case.steps) != len(recorded[case.name])] == []


def test_the_table_is_long() -> None:
    assert len(table()) >= 250


@pytest.mark.parametrize("listed", [DIFFERS, NOT_YET], ids=["differs", "not_yet"])
def test_what_is_listed_is_a_case_and_has_a_reason(listed: dict[str, str]) -> None:
    names = {case.name for program in (KUBECTL, KARMADACTL) for case in table(program)}
    assert [name for name in listed if name not in names] == []
    assert [name for name, why in listed.items() if len(why.split()) < 3] == []
    assert DIFFERS.keys().isdisjoint(NOT_YET)


def test_a_kubectl_says_its_version(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho \'{"clientVersion": {"gitVersion": "v1.37.2"}}\'\n')
    program.chmod(0o755)
    assert programs.version_of(str(program)) == "1.37"
    assert programs.version_of(str(tmp_path / "none")) == ""
