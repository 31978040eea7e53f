"""The cases of karmadactl on a running Moorage, held to what a real Karmada answered.

`ops/kubectl-get --karmadactl` builds the program. Where it is missing these tests are not collected, and the
header says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.kubectl import outcome, programs
from tests.kubectl.cases import KARMADACTL, Case, table
from tests.kubectl.driver import Run, driven
from tests.kubectl.programs import Kubectl
from tests.kubectl.servers import kubeconfig
from tests.support.brokers import Broker
from tests.support.live import running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

CASES = [(program, case) for program in programs.karmadactl() for case in table(KARMADACTL)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Run]]:
    """What each case showed."""
    folder, prefix = tmp_path_factory.mktemp("karmadactl"), f"{RUN}-karmadactl-"
    cases = table(KARMADACTL)
    async with running(broker.bootstrap, prefix, folder) as live:
        (program,) = programs.karmadactl()
        async with driven(kubeconfig(live.server, folder / "kubeconfig"), program) as driver:
            yield await outcome.again(driver, cases, await driver.all(cases, 2))


@pytest.mark.parametrize(("program", "case"), CASES, ids=[case.name for _, case in CASES], scope="module")
def test_a_case_shows_what_a_real_karmada_shows(program: Kubectl, case: Case, runs: dict[str, Run]) -> None:
    found = outcome.differences(case, outcome.recorded(program.version)[case.name], runs[case.name])
    told = "\n".join(map(str, found))
    if case.name in outcome.reasons("differs"):
        assert found, f"{case.name} does not differ: take it off differs.yaml"
    else:
        assert not found, f"{case.name}\n{told}"


def test_every_case_has_an_answer() -> None:
    cases, recorded = table(KARMADACTL), outcome.recorded("karmadactl-1.16")
    assert recorded.keys() == {case.name for case in cases}
    assert [case.name for case in cases if len(case.steps) != len(recorded[case.name])] == []
