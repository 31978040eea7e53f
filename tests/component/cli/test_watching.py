"""A watch continues when the gateway is temporarily away."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.component.cli.fake_gateway import FakeGateway, Run, said

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api.client import Client
from moorage.cli.api.kinds import find
from moorage.cli.api.watching import LONGEST_PAUSE, PATIENCE, Watching
from moorage.cli.errors import CliError, ServerError, UnreachableError

NODES = find("nodes")
AWAY = UnreachableError("http://gateway", "refused")
Step = Callable[[str], Iterator[tuple[str, Any]]]


def node(name: str, version: int, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": str(version), "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def events(*found: tuple[str, dict[str, Any]]) -> Step:
    return lambda _: iter(found)


def fails(error: Exception) -> Step:
    def step(_: str) -> Iterator[tuple[str, Any]]:
        raise error

    return step


def breaks_off(*found: tuple[str, dict[str, Any]]) -> Step:
    def step(_: str) -> Iterator[tuple[str, Any]]:
        yield from found
        raise AWAY

    return step


def ends(_: str) -> Iterator[tuple[str, Any]]:
    """The end of the script. It stops the test."""
    raise KeyboardInterrupt


class Gateway(Client):
    """Lists the objects of `there`, and answers watches with a script."""

    def __init__(self, *script: Step) -> None:
        super().__init__("http://127.0.0.1:1")
        self.there = [node("n1", 1), node("n2", 2)]
        self.lists = 0
        self.versions: list[str] = []
        self._script = list(script)

    def list(
        self, kind: ServedKind, namespace: str | None, selector: str = "", *, name: str = "", **more: Any
    ) -> dict[str, Any]:
        assert (kind, namespace, selector, name, more) == (NODES, None, "", "", {"fields": ""})
        self.lists += 1
        version = max(int(item["metadata"]["resourceVersion"]) for item in self.there)
        return {"metadata": {"resourceVersion": str(version)}, "items": self.there}

    def watch(
        self, kind: ServedKind, namespace: str | None, version: str, *, selector: str = "", name: str = "", **more: Any
    ) -> Iterator[tuple[str, Any]]:
        assert (kind, namespace, selector, name, more) == (NODES, None, "", "", {"fields": ""})
        self.versions.append(version)
        return self._script.pop(0)(version)


class Watcher:
    """Watches a gateway on a clock that only advances in pauses."""

    def __init__(self, gateway: Gateway) -> None:
        self.told: list[str] = []
        self.pauses: list[float] = []
        self._watching = Watching(
            gateway,
            NODES,
            None,
            tell=self.told.append,
            wait=self.pauses.append,
            clock=lambda: sum(self.pauses),
        )
        self._watching.start()

    def run(self) -> list[str]:
        """The changes until the script ends."""
        seen = []
        with contextlib.suppress(KeyboardInterrupt):
            for word, found in self._watching.changes():
                seen.append(f"{word} {found['metadata']['name']}@{found['metadata']['resourceVersion']}")
        return seen

    def fail(self) -> CliError:
        """The error with which the watch ends."""
        with pytest.raises(CliError) as failed:
            list(self._watching.changes())
        return failed.value


def test_it_goes_on_after_the_last_change_it_has_seen() -> None:
    gateway = Gateway(
        breaks_off(("MODIFIED", node("n1", 5)), ("BOOKMARK", node("", 7))),
        fails(AWAY),
        events(("DELETED", node("n2", 9))),
        ends,
    )
    watcher = Watcher(gateway)
    assert watcher.run() == ["MODIFIED n1@5", "DELETED n2@9"]
    assert gateway.versions == ["2", "7", "7", "9"]
    assert gateway.lists == 1
    first, second = watcher.told
    assert first.startswith("The watch was interrupted, trying again: the gateway at http://gateway does not answer")
    assert second == "The watch continues."
    assert "\n" not in first


def test_a_stream_that_the_gateway_ends_is_taken_up_again_without_a_word() -> None:
    gateway = Gateway(events(("ADDED", node("n3", 3))), events(), ends)
    watcher = Watcher(gateway)
    assert watcher.run() == ["ADDED n3@3"]
    assert (gateway.versions, watcher.told) == (["2", "3", "3"], [])


@pytest.mark.parametrize(
    "expired",
    [
        fails(ServerError(status=410, reason="Expired", message="too old resource version")),
        events(("ERROR", {"code": 410, "reason": "Expired", "message": "too old resource version"})),
    ],
)
def test_what_has_expired_is_listed_anew_and_told_by_what_differs(expired: Step) -> None:
    gateway = Gateway(events(("ADDED", node("n3", 3)), ("DELETED", node("n2", 4))), expired, ends)
    watcher = Watcher(gateway)
    gateway.there = [node("n1", 8, {"rack": "7"}), node("n2", 9), node("n4", 7)]
    assert watcher.run() == ["ADDED n3@3", "DELETED n2@4", "MODIFIED n1@8", "ADDED n2@9", "ADDED n4@7", "DELETED n3@3"]
    assert gateway.versions == ["2", "4", "9"]
    assert watcher.told == []


def test_an_object_that_has_only_a_new_version_is_not_repeated() -> None:
    """A gateway that has restarted gives all objects the version at which it had read its tables."""
    expired = fails(ServerError(status=410, reason="Expired", message="too old resource version"))
    gateway = Gateway(expired, ends)
    watcher = Watcher(gateway)
    gateway.there = [node("n1", 9), node("n2", 9, {"rack": "7"})]
    assert watcher.run() == ["MODIFIED n2@9"]
    assert gateway.versions == ["2", "9"]


def test_pauses_double_and_begin_anew_when_something_came() -> None:
    away = [fails(AWAY) for _ in range(6)]
    gateway = Gateway(*away, events(("ADDED", node("n3", 3))), fails(AWAY), ends)
    watcher = Watcher(gateway)
    watcher.run()
    assert watcher.pauses == [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE, 0.5, 1.0]


def test_a_gateway_that_stays_away_ends_it_with_an_error() -> None:
    gateway = Gateway(*(fails(AWAY) for _ in range(100)))
    watcher = Watcher(gateway)
    error = watcher.fail()
    assert error.code == 1
    assert str(error).startswith(f"error: the watch could not continue for {PATIENCE:.0f} s: the gateway at")
    assert PATIENCE <= sum(watcher.pauses) < PATIENCE + LONGEST_PAUSE


def test_what_the_gateway_refuses_ends_it_at_once() -> None:
    refused = ServerError(status=403, reason="Forbidden", message="no")
    watcher = Watcher(Gateway(fails(refused)))
    assert watcher.fail() is refused
    assert (watcher.pauses, watcher.told) == ([], [])


def test_a_fleet_that_was_made_anew_is_listed() -> None:
    ahead = fails(ServerError(status=504, reason="Timeout", message="Too large resource version"))
    gateway = Gateway(ahead, ahead, ahead, ends)
    watcher = Watcher(gateway)
    gateway.there = [node("m1", 1)]
    assert watcher.run() == ["ADDED m1@1", "DELETED n1@1", "DELETED n2@2"]
    assert gateway.versions == ["2", "2", "2", "1"]


def test_get_tells_breaks_on_standard_error_and_ends_with_1(
    gateway: FakeGateway, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.node("n1")
    script = iter([breaks_off(("DELETED", node("n1", 5))), fails(ServerError(status=400, reason="", message="no"))])
    monkeypatch.setattr(Client, "watch", lambda *_, **__: next(script)(""))
    monkeypatch.setattr("time.sleep", lambda _: None)
    code, out, err = said(run("get", "nodes", "-w", "-o", "name"))
    assert (code, out) == (1, "node/n1\nnode/n1\n")
    assert err.splitlines() == [
        "The watch was interrupted, trying again: the gateway at http://gateway does not answer (refused).",
        "Error from server: no",
    ]
