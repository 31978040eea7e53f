"""The patches of aiokafka's inside are all applied, once each, whatever is imported first."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import aiokafka
import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.errors import ConcurrentTransactions, CoordinatorLoadInProgressError
from aiokafka.producer.sender import InitPIDHandler
from structlog.testing import capture_logs
from tests.support.virtual_time import virtual_time

import moorage.runtime.kafka.clients as room
from moorage.runtime.kafka.clients.aiokafka_patches import (
    FITTING,
    PATCHES,
    UNENDED,
    Patch,
    apply_patches,
    check_version,
)
from moorage.runtime.process.failures import RuntimeFailure

MODULES = sorted(path.stem for path in Path(str(room.__file__)).parent.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("module", MODULES)
def test_all_are_applied_after_the_import_of_any_client_module(module: str) -> None:
    code = (
        f"import moorage.runtime.kafka.clients.{module}\n"
        "from moorage.runtime.kafka.clients.aiokafka_patches import PATCHES\n"
        "print([patch.is_applied for patch in PATCHES])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ast.literal_eval(found.stdout) == [True] * len(PATCHES)


def test_applying_them_again_changes_nothing() -> None:
    before = [getattr(patch.place, patch.function) for patch in PATCHES]
    apply_patches()
    assert [getattr(patch.place, patch.function) for patch in PATCHES] == before


def test_a_function_is_wrapped_by_each_of_its_patches_in_their_order() -> None:
    calls: list[str] = []

    class Place:
        def ask(self) -> str:
            return "asked"

    def noting(name: str) -> Patch:
        def wrap(ask: object) -> object:
            def asking(self: object) -> object:
                calls.append(name)
                return ask(self)  # type: ignore[operator]  # it is a function

            return asking

        return Patch(name, Place, "ask", wrap)  # type: ignore[arg-type]  # as above

    first, second = noting("first"), noting("second")
    for patch in (first, second, first, second):
        patch.apply()
    assert (first.is_applied, second.is_applied) == (True, True)
    assert Place().ask() == "asked"
    assert calls == ["second", "first"]


def test_both_patches_of_a_clients_metadata_are_in_effect() -> None:
    both = [patch for patch in PATCHES if (patch.place, patch.function) == (AIOKafkaClient, "_metadata_update")]
    assert [patch.name for patch in both] == ["used topics", "refusals"]
    assert AIOKafkaClient._metadata_update.moorage_patches == ("used topics", "refusals")


def test_no_two_patches_of_a_function_have_one_name() -> None:
    assert len({(patch.name, patch.place, patch.function) for patch in PATCHES}) == len(PATCHES)


@pytest.mark.parametrize("version", ["0.13.2", "0.15.0", "1.0", "0.140.0"])
def test_another_version_of_aiokafka_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(aiokafka, "__version__", version)
    with pytest.raises(RuntimeFailure, match=rf"aiokafka: invalid version '{version}': expected {FITTING}"):
        apply_patches()


@virtual_time
async def test_a_transaction_that_its_coordinator_does_not_end_is_logged_now_and_then() -> None:
    inside = SimpleNamespace(
        _txn_manager=SimpleNamespace(transactional_id="m.eviction.1"),
        _coordinators={CoordinationType.TRANSACTION: 2},
        _retry_backoff=0.1,
        client=None,
    )
    handler = InitPIDHandler(inside)
    unended = SimpleNamespace(error_code=ConcurrentTransactions.errno)
    loading = SimpleNamespace(error_code=CoordinatorLoadInProgressError.errno)

    async def answered(answer: SimpleNamespace, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            assert handler.handle_response(answer) == 0.1
            await asyncio.sleep(1.0)

    with capture_logs() as logs:
        await answered(unended, UNENDED)
        await answered(loading, 1.0)
        await answered(unended, UNENDED)
        assert not logs
        await answered(unended, 2 * UNENDED)
    assert [(log["event"], log["transactional_id"], log["broker"], log["seconds"]) for log in logs] == [
        ("producer.waits_for_coordinator", "m.eviction.1", 2, UNENDED),
        ("producer.waits_for_coordinator", "m.eviction.1", 2, 2 * UNENDED),
    ]


def test_a_later_correction_of_the_version_is_accepted() -> None:
    check_version(f"{FITTING}.9")
