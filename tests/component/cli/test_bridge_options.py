"""What the options of `moorage bridge` choose and refuse, without a bridge that runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.cli.fake_gateway import FakeGateway, Run, said

BRIDGES = {
    "kubernetes": (
        "moorage.bridges.kubernetes.cluster_bridge.KubernetesBridge",
        "conditions evictions placement taints",
    ),
    "ocm": ("moorage.bridges.ocm.hub_bridge.HubBridge", "labels placements taints"),
    "karmada": ("moorage.bridges.karmada.plane_bridge.PlaneBridge", "bindings taints"),
}


@pytest.fixture(params=sorted(BRIDGES))
def bridge(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def begun(bridge: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of the bridges that were begun."""
    options: list[Any] = []
    monkeypatch.setenv("MOORAGE_BOOTSTRAP_SERVERS", "kafka.example:9092")

    async def run(_services: object, settings: object, beside: Any) -> int:
        for make in beside:
            make(settings)
        return 0

    monkeypatch.setattr("moorage.runtime.process.logs.configure_logs", lambda _settings: None)
    monkeypatch.setattr("moorage.runtime.app.run_services", run)
    monkeypatch.setattr(BRIDGES[bridge][0], lambda _settings, chosen: options.append(chosen))
    return options


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ((), ""),
        (("--act", "taints"), "taints"),
        (("--act", "all"), None),
        (("--act", "taints,all"), None),
        (("--act", "taints", "--act", "SECOND"), "SECOND taints"),
        (("--act", "taints, SECOND"), "SECOND taints"),
    ],
)
def test_acts_add_up(
    *, gateway: FakeGateway, run: Run, begun: list[Any], bridge: str, words: tuple[str, ...], chosen: str | None
) -> None:
    every = BRIDGES[bridge][1]
    second = every.split()[0]
    code, _, error = said(run("bridge", bridge, *(word.replace("SECOND", second) for word in words)))
    assert (code, error) == (0, "")
    expected = every if chosen is None else chosen.replace("SECOND", second)
    assert [sorted(one.acts) for one in begun] == [expected.split()]
    assert gateway.requests == []


def test_an_unknown_act_is_refused(gateway: FakeGateway, run: Run, begun: list[Any], bridge: str) -> None:
    code, _, error = said(run("bridge", bridge, "--act", "taints,taint"))
    assert (code, begun, gateway.requests) == (2, [], [])
    names = error.split("some of ")[1].split(", separated")[0].split(", ")
    assert "--act: invalid value 'taint': must be all, or some of " in error
    assert sorted(names) == BRIDGES[bridge][1].split()


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("kubernetes --act fly", "--act"),
        ("kubernetes --eviction fast", "--eviction"),
        ("kubernetes --cluster Bad_Name", "--cluster"),
        ("kubernetes --cluster home", "--cluster"),
        ("kubernetes --scheduler-name=", "--scheduler-name"),
        ("ocm --act fly", "--act"),
        ("karmada --act fly", "--act"),
        ("karmada --scheduler-name=", "--scheduler-name"),
        ("leave kubernetes --cluster Bad_Name", "--cluster"),
        ("leave ocm --cluster east", "--cluster"),
    ],
)
def test_a_wrong_option_is_named_before_a_gateway_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, run: Run, words: str, option: str
) -> None:
    def looked_for(_: object) -> None:
        raise AssertionError("the gateway is looked for first")

    monkeypatch.setattr("moorage.cli.commands.bridge._gateway", looked_for)
    code, _, error = said(run("bridge", *words.split()))
    assert code == 2, error
    assert error.startswith(f"error: {option}: ")
