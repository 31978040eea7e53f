"""ProbeGrants on a real Kafka: what a probe may do by HTTP and by Kafka, and what becomes of forgeries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaProducer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from tests.support.brokers import Broker
from tests.support.gateways import running_gateway
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until

from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.refs import TargetRef
from moorage_schemas.signing import SEAL_HEADER, SIGNATURE_HEADER, SignedReport
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, DEAD_LETTERS, PROBE_GRANTS
from moorage_sdk import Connection
from moorage_sdk.outbox import Report
from moorage_sdk.senders import KafkaSender
from moorage_sdk.signing import ReportSigner

pytestmark = pytest.mark.kafka

PARTITIONS = 2
GRANTS = "/apis/moorage.io/v1alpha1/probegrants"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
TOKENS = 'root,root,,"system:masters"\nann,ann,\neve,eve,\n'
START = datetime.now(UTC)


def private_key(folder: Path, name: str) -> tuple[str, str]:
    """A key's file, and its public key."""
    key = Ed25519PrivateKey.generate()
    file = folder / name
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(file), key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def report(identity: str, name: str = "a1", condition: str = "DiskSlow", seconds: float = 0) -> Report:
    event = ConditionReported(
        target=TargetRef.parse(f"Node/{name}"),
        type=condition,
        status=ConditionStatus.TRUE,
        observed_time=START + timedelta(seconds=seconds),
    )
    return Report(event, Meta(id=identity, source="probe/disk", type=CONDITION_REPORTS.event_type))


async def by_kafka(settings: Settings, said: Report, *headers: tuple[str, bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        await producer.send_and_wait(
            CONDITION_REPORTS.name(settings.topic_prefix),
            key=said.event.target.key.encode(),
            value=said.event.model_dump_json().encode(),
            headers=[*to_headers(said.meta), *headers],
        )


async def by_http(client: httpx.AsyncClient, token: str, said: Report) -> tuple[int, str]:
    headers = {f"ce-{name}": getattr(said.meta, name) for name in ("id", "source", "type")}
    headers |= {"ce-specversion": "1.0", "content-type": "application/json", "authorization": f"Bearer {token}"}
    answer = await client.post("/v1/conditions?waitSeconds=30", content=said.event.model_dump_json(), headers=headers)
    return answer.status_code, answer.json().get("outcome") or answer.json()["details"]["causes"][0]["field"]


async def refusals(settings: Settings) -> dict[str, str]:
    """The field of each refusal, by the id of the report."""
    letters = [DeadLettered.model_validate_json(record.value) for record in await read_all(settings, DEAD_LETTERS)]
    return {letter.headers["ce_id"]: letter.field for letter in letters if letter.reason == "Forbidden"}


async def conditions(settings: Settings) -> list[ConditionChanged]:
    return [ConditionChanged.model_validate_json(record.value) for record in await read_all(settings, CONDITIONS)]


async def post(client: httpx.AsyncClient, path: str, body: Any) -> None:
    answer = await client.post(path, json=body, headers={"authorization": "Bearer root"})
    assert answer.status_code == 201, answer.text


def signature(signer: ReportSigner, said: Report) -> tuple[str, bytes]:
    meta, value = said.meta, said.event.model_dump_json().encode()
    return signer.header(SignedReport(said.event.target.key, meta.id, meta.source, meta.type, value))


async def prepare(client: httpx.AsyncClient, names: Sequence[str], key: str) -> None:
    for name in names:
        await post(client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "probes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "moorage:probe"},
        "subjects": [{"kind": "Group", "name": "system:authenticated"}],
    }
    await post(client, ROLES, binding)
    spec = {
        "source": "probe/disk",
        "subjects": [{"kind": "User", "name": "ann"}],
        "targets": [{"kind": "Node", "names": ["a*"]}],
        "conditions": ["Disk*"],
        "keys": [{"id": "k1", "publicKey": key}],
    }
    grant = {"apiVersion": "moorage.io/v1alpha1", "kind": "ProbeGrant", "metadata": {"name": "disk"}, "spec": spec}
    await post(client, GRANTS, grant)


async def test_a_probe_reports_what_is_granted_and_nothing_else(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    identities = GatewayIdentities(tmp_path / "identities")
    identities.ensure()
    tokens = tmp_path / "people.csv"
    tokens.write_text(TOKENS)
    settings = settings_for(
        broker.bootstrap,
        topic_prefix,
        partitions=PARTITIONS,
        gateway_port=0,
        token_auth_file=str(tokens),
        service_account_signing_key_file=str(identities.signing_key),
    )
    file, public = private_key(tmp_path, "k1.pem")
    other, _ = private_key(tmp_path, "other.pem")
    right, wrong = ReportSigner(file, "k1"), ReportSigner(other, "k1")
    async with running_gateway(settings) as client:
        await prepare(client, ("a1", "b1"), public)
        async with worker_for(condition_ingest.service(settings), settings) as worker:
            await until(lambda: worker.ready)
            assert await by_http(client, "ann", report("h1")) == (200, "Counted")
            assert await by_http(client, "eve", report("h2")) == (403, "source")
            assert await by_http(client, "ann", report("h3", "b1")) == (403, "target")
            assert await by_http(client, "ann", report("h4", condition="Ready")) == (403, "type")
            assert await by_http(client, "root", report("h5", "b1", "Ready")) == (200, "Counted")

            (sealed,) = [record for record in await read_all(settings, CONDITION_REPORTS) if record.value][:1]
            copied = (SEAL_HEADER, dict(sealed.headers)[SEAL_HEADER])
            later = report("k1", condition="DiskWarm", seconds=1)
            for identity, headers in (
                ("k-unsigned", ()),
                ("k-seal", ((SEAL_HEADER, b"any.1767225600.AAAA"),)),
                ("k-copied", (copied,)),
                ("k-wrong", (signature(wrong, report("k-wrong", seconds=1)),)),
                ("k-another", (signature(right, report("another", seconds=1)),)),
                ("k-ready", (signature(right, report("k-ready", "a1", "Ready", 1)),)),
            ):
                condition = "Ready" if identity == "k-ready" else "DiskSlow"
                await by_kafka(settings, report(identity, condition=condition, seconds=1), *headers)
            connection = Connection(
                transport="kafka",
                bootstrap_servers=settings.bootstrap_servers,
                topic_prefix=settings.topic_prefix,
                report_key_file=file,
                report_key_id="k1",
            )
            sender = KafkaSender(connection, "probe/disk")
            await sender.start()
            assert await sender.send([later]) == []
            await sender.stop()

            async def decided() -> bool:
                return any(one.report_id == "k1" for one in await conditions(settings))

            await until(decided)
            (written,) = [
                record
                for record in await read_all(settings, CONDITION_REPORTS)
                if dict(record.headers).get("ce_id") == b"k1"
            ]
            after = len(await conditions(settings))
            newer = report("k2", condition="DiskFull", seconds=2)
            # The record of the signed report, once more, and one after it that shows when it has been read.
            await by_kafka(settings, later, (SIGNATURE_HEADER, dict(written.headers)[SIGNATURE_HEADER]))
            await by_kafka(settings, newer, signature(right, newer))
            await until(lambda: _counted(settings, "k2"))
            assert len(await conditions(settings)) == after + 1
            assert await refusals(settings) == {
                "k-unsigned": "source",
                "k-seal": "seal time",
                "k-copied": "seal",
                "k-wrong": "signature",
                "k-another": "signature",
                "k-ready": "type",
            }
        (grant,) = await read_all(settings, PROBE_GRANTS)
        assert json.loads(grant.value)["spec"]["source"] == "probe/disk"

        # What was written while no worker ran is judged by the grants of the present: after a restart, and after the
        # grant was changed in between.
        await by_kafka(settings, report("away-unsigned", seconds=3))
        fan = report("away", condition="Fan", seconds=3)
        await by_kafka(settings, fan, signature(right, fan))
        change = {"spec": {"conditions": ["Disk*", "Fan"]}}
        merge = {"authorization": "Bearer root", "content-type": "application/merge-patch+json"}
        assert (await client.patch(f"{GRANTS}/disk", json=change, headers=merge)).status_code == 200
        async with worker_for(condition_ingest.service(settings), settings):
            await until(lambda: _counted(settings, "away"))

            async def refused() -> bool:
                return "away-unsigned" in await refusals(settings)

            await until(refused)


async def _counted(settings: Settings, identity: str) -> bool:
    return any(one.report_id == identity for one in await conditions(settings))
