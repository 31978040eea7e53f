"""ProbeGrants at the gateway: who may report what, the seal on what was accepted, and what condition-ingest is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.component.gateway.double import Fixture
from tests.component.gateway.test_access import allow, call

from moorage.apiserver.storage.durable_log import Write
from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.reports.report_seals import Sealed, Seals
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.probe_grant import ProbeGrantChanged
from moorage_schemas.signing import SEAL_HEADER, SIGNATURE_HEADER, SignedReport, parse_signature
from moorage_schemas.topics import CONDITION_REPORTS, FLEET, PROBE_GRANTS, RESOURCES

GRANTS = "/apis/moorage.io/v1alpha1/probegrants"
TOKENS = 'root,root,,"system:masters"\nann,ann,\nbob,bob,,"probes"\neve,eve,\nops,ops,\n'
DISK = {
    "source": "probe/disk/*",
    "subjects": [{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "probes"}],
    "targets": [{"kind": "Node", "selector": {"matchLabels": {"disk": "ssd"}}}],
    "conditions": ["Disk*", "Ready"],
}
BATCH = {"content-type": "application/cloudevents-batch+json"}


def seals(folder: Path) -> Seals:
    return Seals(str(GatewayIdentities(folder).signing_key))


async def gateway_of(folder: Path, *specs: Any) -> Fixture:
    """A gateway with two nodes, of which one has an SSD. Everybody may report."""
    identities = GatewayIdentities(folder)
    identities.ensure()
    tokens = folder / "people.csv"
    tokens.write_text(TOKENS)
    key = str(identities.signing_key)
    gateway = Fixture(settings=Settings(token_auth_file=str(tokens), service_account_signing_key_file=key))
    report = {"verbs": ["create"], "apiGroups": ["moorage.io"], "resources": ["conditionreports"]}
    await allow(gateway, "probe", [{"kind": "Group", "name": "system:authenticated"}], report)
    root = {"authorization": "Bearer root"}
    for name, labels in (("n1", {"disk": "ssd"}), ("n2", {})):
        await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}}, headers=root)
    for number, spec in enumerate(specs):
        await gateway.ok("POST", GRANTS, {"metadata": {"name": f"g{number}"}, "spec": spec}, headers=root)
    return gateway


def event(source: str = "probe/disk/1", name: str = "n1", condition: str = "DiskSlow", **data: Any) -> dict[str, Any]:
    target = {"kind": "Node", "name": name}
    observed = {"status": "True", "observedTime": "2026-01-01T12:00:00Z"}
    return {
        "specversion": "1.0",
        "id": "r1",
        "source": source,
        "type": CONDITION_REPORTS.event_type,
        "data": {"target": target, "type": condition, **observed, **data},
    }


async def sent(gateway: Fixture, token: str, said: Any) -> Any:
    return await call(gateway, token, "POST", "/v1/conditions", said, content_type="application/cloudevents+json")


def seal_of(write: Write, folder: Path) -> Sealed | None:
    (value,) = (value for name, value in write.meta.proofs if name == SEAL_HEADER)
    found = parse_signature(value)
    assert found is not None
    meta = write.meta
    return seals(folder).read(SignedReport(write.key, meta.id, meta.source, meta.type, write.value or b""), found)


WORKLOAD = {"kind": "Pod", "namespace": "shop", "name": "web"}


@pytest.mark.parametrize(
    ("token", "said", "field", "value"),
    [
        ("ann", event(), "", ""),
        ("bob", event(condition="Ready"), "", ""),
        ("eve", event(), "source", "probe/disk/1"),
        ("ann", event(source="cli/ann"), "source", "cli/ann"),
        (
            "ann",
            event() | {"data": event()["data"] | {"source": "net"}},
            "source",
            "net",
        ),
        ("ann", event(name="n2"), "target", "Node/n2"),
        ("ann", event(condition="MemoryPressure"), "type", "MemoryPressure"),
        ("ann", event(condition="DiskPressure"), "type", "DiskPressure"),
        ("ann", event(workload=WORKLOAD), "workload", "Pod/shop/web"),
    ],
)
async def test_a_probe_reports_what_a_grant_covers(
    tmp_path: Path, token: str, said: Any, field: str, value: str
) -> None:
    gateway = await gateway_of(tmp_path, DISK)
    answer = await sent(gateway, token, said)
    if not field:
        assert answer.status_code == 202, answer.text
        (write,) = gateway.log.reported
        assert seal_of(write, tmp_path) is Sealed.GRANTED
        return
    status = answer.json()
    assert (answer.status_code, status["reason"]) == (403, "Forbidden")
    (cause,) = status["details"]["causes"]
    assert cause["field"] == field
    assert repr(value) in cause["message"]
    assert "ProbeGrant" in cause["message"]
    assert gateway.log.reported == []


async def test_without_grants_everything_counts(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    assert (await sent(gateway, "eve", event(source="anything"))).status_code == 202


async def test_administrators_and_whoever_may_report_anything_need_no_grant(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, DISK)
    said = event(source="cli/ops", name="n2", condition="Ready")
    assert (await sent(gateway, "ops", said)).status_code == 403
    rule = {"verbs": ["create"], "apiGroups": ["moorage.io"], "resources": ["conditionreports/any"]}
    await allow(gateway, "anything", [{"kind": "User", "name": "ops"}], rule)
    for token in ("root", "ops"):
        assert (await sent(gateway, token, said)).status_code == 202
    assert [seal_of(write, tmp_path) for write in gateway.log.reported] == [Sealed.ANY, Sealed.ANY]


async def test_a_batch_is_judged_event_by_event(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, DISK)
    said = [event(), event(source="probe/net")]
    answer = await call(gateway, "ann", "POST", "/v1/conditions", said, content_type=BATCH["content-type"])
    assert answer.status_code == 207
    assert [item["outcome"] for item in answer.json()["items"]] == ["Accepted", "Refused"]
    assert [write.meta.source for write in gateway.log.reported] == ["probe/disk/1"]


async def test_what_a_sender_says_of_a_seal_is_not_passed_on(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, DISK)
    forged = {SEAL_HEADER.removeprefix("ce_"): "any.1.x", SIGNATURE_HEADER.removeprefix("ce_"): "k1.1.x"}
    assert (await sent(gateway, "ann", event() | forged)).status_code == 202
    (write,) = gateway.log.reported
    assert [name for name, _ in write.meta.proofs] == [SEAL_HEADER]
    assert seal_of(write, tmp_path) is Sealed.GRANTED


async def test_condition_ingest_is_told_of_each_grant_with_the_resource(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, DISK)
    root = {"authorization": "Bearer root"}
    change = {"spec": {"conditions": ["Fan"]}}
    await gateway.ok("PATCH", f"{GRANTS}/g0", change, headers=root)
    await gateway.ok("DELETE", f"{GRANTS}/g0", headers=root)
    written = [write for write in gateway.log.written if write.topic is PROBE_GRANTS]
    assert {(write.key, write.partition_key) for write in written} == {("g0", FLEET)}
    first, second, last = (write.event for write in written)
    assert isinstance(first, ProbeGrantChanged)
    assert isinstance(second, ProbeGrantChanged)
    assert (first.generation, second.generation, last) == (1, 2, None)
    assert second.spec.conditions == ["Fan"]
    assert first.uid
    beside = gateway.log.written[gateway.log.written.index(written[1]) - 2 :]
    assert RESOURCES in {write.topic for write in beside}
    assert (await sent(gateway, "eve", event())).status_code == 202  # there is no grant any more


async def test_a_grant_is_validated(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    root = {"authorization": "Bearer root"}
    body = {"metadata": {"name": "g"}, "spec": DISK | {"targets": [{"kind": "Pod"}], "rates": {}}}
    answer = await gateway.call("POST", GRANTS, body, headers=root)
    assert answer.status_code in {400, 422}
    body["spec"] = DISK | {"targets": [{"kind": "Pod"}]}
    answer = await gateway.call("POST", GRANTS, body, headers=root)
    assert answer.status_code == 422
    assert "spec.targets[0].kind" in answer.json()["message"]
