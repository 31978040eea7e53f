"""condition-ingest under ProbeGrants: whose reports in Kafka count, and what goes to dead letters."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from moorage.runtime.reports.report_seals import Sealed, Seals
from moorage.runtime.service import Emit, Input, NeedFresh, RawRecord
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest
from moorage.workers.condition_ingest.service import ConditionIngest
from moorage.workers.condition_ingest.state import ConditionIngestPartition
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.envelope import STRUCTURED, Meta
from moorage_schemas.probe_grant import ProbeGrantChanged
from moorage_schemas.refs import TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.signing import SEAL_HEADER, SIGNATURE_HEADER, Signature, SignedReport, signed_bytes
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, DEAD_LETTERS, PROBE_GRANTS, RESOURCES, partition_of

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
PARTITIONS = 4
HERE = partition_of("Node/n1", PARTITIONS)
KEY = Ed25519PrivateKey.generate()
OTHER = Ed25519PrivateKey.generate()
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
DISK = {
    "source": "probe/disk",
    "targets": [{"kind": "Node", "selector": {"matchLabels": {"disk": "ssd"}}}],
    "conditions": ["Disk*"],
    "keys": [{"id": "k1", "publicKey": PEM}],
}


class Ingest:
    """The service with a view and one partition."""

    def __init__(self, key_file: str, *grants: Any) -> None:
        settings = Settings(partitions=PARTITIONS, service_account_signing_key_file=key_file)
        self.service: ConditionIngest = condition_ingest.service(settings)
        self.view = self.service.new_globals()
        self.state = self.fresh()
        for number, spec in enumerate(grants):
            self.grant(f"g{number}", spec)

    def fresh(self, partition: int = HERE) -> ConditionIngestPartition:
        state = self.service.new_state(partition)
        self.service.use_globals(state, self.view)
        for name, labels in (("n1", {"disk": "ssd"}), ("n2", {})):
            metadata = {
                "name": name,
                "uid": f"uid-{name}",
                "labels": labels,
                "creationTimestamp": "2026-01-02T08:00:00Z",
            }
            declared = ResourceDeclared(object={"apiVersion": "v1", "kind": "Node", "metadata": metadata}, version=1)
            self.service.apply(state, RESOURCES, f"Node//{name}", declared)
        return state

    def grant(self, name: str, spec: Any) -> None:
        event = None if spec is None else ProbeGrantChanged.model_validate({"generation": 1, "spec": spec})
        meta = Meta(id=name, source="moorage/gateway", type=PROBE_GRANTS.event_type)
        self.view.apply(Input(PROBE_GRANTS, 0, 0, name, event, meta))

    def take(self, record: Input, state: ConditionIngestPartition | None = None) -> list[Emit]:
        mine = state or self.state
        try:
            return self.service.process(mine, [record], NOW)
        except NeedFresh:
            return self.service.process(mine, [record], NOW, fresh=True)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    file = tmp_path / "key"
    file.write_bytes(hashlib.sha256(b"a secret of this test").digest())
    return str(file)


def report(name: str = "n1", condition: str = "DiskSlow", **data: Any) -> ConditionReported:
    target = TargetRef.parse(f"Node/{name}")
    return ConditionReported(
        target=target, type=condition, status=ConditionStatus.TRUE, observed_time=data.pop("at", NOW), **data
    )


def record(
    event: ConditionReported,
    *headers: tuple[str, bytes],
    source: str = "probe/disk",
    partition: int = HERE,
    written: datetime = NOW,
) -> Input:
    meta = Meta(id="r1", source=source, type=CONDITION_REPORTS.event_type)
    raw = RawRecord(event.target.key.encode(), event.model_dump_json().encode(), headers)
    return Input(CONDITION_REPORTS, partition, 0, event.target.key, event, meta, raw, written)


def what(event: ConditionReported, source: str = "probe/disk") -> SignedReport:
    value = event.model_dump_json().encode()
    return SignedReport(event.target.key, "r1", source, CONDITION_REPORTS.event_type, value)


def sealed(key_file: str, event: ConditionReported, said: Sealed = Sealed.GRANTED, **options: Any) -> tuple[str, bytes]:
    when = options.pop("when", NOW)
    seal = Seals(key_file).seal(what(event, **options), said, int(when.timestamp()))
    return SEAL_HEADER, seal.header()


def signed(
    event: ConditionReported, key: Ed25519PrivateKey = KEY, name: str = "k1", when: datetime = NOW, **options: Any
) -> tuple[str, bytes]:
    seconds = int(when.timestamp())
    signature = key.sign(signed_bytes(what(event, **options), name, seconds))
    return SIGNATURE_HEADER, Signature(name, seconds, signature).header()


def refused(emits: list[Emit]) -> str:
    """The field of a refusal. Empty if the report counts."""
    (first, *_) = emits
    if first.topic is CONDITIONS:
        return ""
    assert first.topic is DEAD_LETTERS
    assert isinstance(first.event, DeadLettered)
    assert first.event.reason is RefusalReason.FORBIDDEN
    assert first.event.rule in first.event.message
    return first.event.field


def test_without_grants_every_report_counts(key_file: str) -> None:
    assert refused(Ingest(key_file).take(record(report(condition="Ready"), source="anybody"))) == ""


def test_sealed_reports_count_if_a_grant_covers_them(key_file: str) -> None:
    ingest = Ingest(key_file, DISK)
    for said, source, field in (
        (report(), "probe/disk", ""),
        (report(), "probe/net", "source"),
        (report("n2"), "probe/disk", "target"),
        (report(condition="Ready"), "probe/disk", "type"),
        (report(source="probe/net"), "probe/disk", "source"),
    ):
        place = partition_of(said.target.key, PARTITIONS)
        came = record(said, sealed(key_file, said, source=source), source=source, partition=place)
        assert refused(ingest.take(came, ingest.fresh(place))) == field
    person = report("n2", "Ready")
    place = partition_of("Node/n2", PARTITIONS)
    came = record(person, sealed(key_file, person, Sealed.ANY, source="cli/ann"), source="cli/ann", partition=place)
    assert refused(ingest.take(came, ingest.fresh(place))) == ""


def test_forged_seals_do_not_count(key_file: str, tmp_path: Path) -> None:
    ingest = Ingest(key_file, DISK)
    said, another = report(), report(message="another")
    (tmp_path / "other").write_bytes(b"another key")
    name, right = sealed(key_file, said)
    for headers in (
        (),
        ((name, b"x"),),
        ((name, right[:-2] + b"AA"),),
        ((name, right.replace(b"granted", b"any")),),
        (sealed(str(tmp_path / "other"), said, Sealed.ANY),),
        (sealed(key_file, another),),
        (sealed(key_file, said, source="cli/ann"),),
        (sealed(key_file, said, when=NOW - timedelta(days=1, minutes=1)),),
        (sealed(key_file, said, when=NOW + timedelta(minutes=1)),),
    ):
        assert refused(ingest.take(record(said, *headers))) in {"source", "seal", "seal time"}, headers
    assert refused(ingest.take(record(said, (name, right)))) == ""


def test_signed_reports_count_by_the_keys_of_the_grant(key_file: str) -> None:
    ingest = Ingest(key_file, DISK, DISK | {"source": "probe/net", "keys": [], "conditions": ["*"]})
    said = report()
    fan = report(condition="Fan")
    for headers, came, source, field in (
        ((signed(said, OTHER),), said, "probe/disk", "signature"),
        ((signed(said, name="k2"),), said, "probe/disk", "source"),
        ((signed(report(message="another")),), said, "probe/disk", "signature"),
        ((signed(said, source="probe/net"),), said, "probe/net", "source"),
        ((signed(fan),), fan, "probe/disk", "type"),
        ((signed(said, when=NOW - timedelta(days=2)),), said, "probe/disk", "signature time"),
        (((SIGNATURE_HEADER, b"k1"),), said, "probe/disk", "signature"),
        (((SEAL_HEADER, b"any.1.AA"), signed(said)), said, "probe/disk", "seal time"),
        ((("content-type", STRUCTURED.encode()), signed(said)), said, "probe/disk", "source"),
    ):
        assert refused(ingest.take(record(came, *headers, source=source))) == field
    assert refused(ingest.take(record(said, signed(said)))) == ""


def test_a_signed_report_that_is_repeated_changes_nothing(key_file: str) -> None:
    ingest = Ingest(key_file, DISK)
    old = report(at=NOW - timedelta(hours=1))
    header = signed(old, when=NOW - timedelta(hours=1))
    assert refused(ingest.take(record(old, header))) == ""
    assert ingest.take(record(old, header)) == []
    # A target of the same name that was declared since is another one, whatever the record's timestamp says.
    early = NOW - timedelta(hours=6)
    copied = report(at=early)
    (emit, *_) = ingest.take(record(copied, signed(copied, when=early)), ingest.fresh())
    assert isinstance(emit.event, DeadLettered)
    assert emit.event.reason is RefusalReason.UNKNOWN_TARGET


def test_without_a_signing_key_unsigned_reports_count_and_signatures_are_checked() -> None:
    ingest = Ingest("", DISK)
    said = report(condition="Ready")
    assert refused(ingest.take(record(said, source="anybody"))) == ""
    assert refused(ingest.take(record(said, (SEAL_HEADER, b"any.1.x"), source="anybody"), ingest.fresh())) == ""
    assert refused(ingest.take(record(said, signed(said)))) == "type"
    assert refused(ingest.take(record(report(), signed(report(), OTHER)))) == "signature"


def test_a_report_is_not_refused_before_the_present_grants_are_read(key_file: str) -> None:
    ingest = Ingest(key_file, DISK)
    said = report(condition="Fan")
    first = report()
    ingest.take(record(first, sealed(key_file, first)))
    came = record(said, sealed(key_file, said))
    with pytest.raises(NeedFresh):
        ingest.service.process(ingest.state, [came], NOW)
    assert PROBE_GRANTS in ingest.service.fresh_globals
    ingest.grant("fan", DISK | {"conditions": ["Fan"]})
    emits = ingest.service.process(ingest.state, [came], NOW, fresh=True)
    assert refused(emits) == ""


def test_a_report_in_the_wrong_partition_keeps_what_shows_its_writer(key_file: str) -> None:
    ingest = Ingest(key_file, DISK)
    elsewhere = (HERE + 1) % PARTITIONS
    said = report()
    for header in (signed(said), sealed(key_file, said)):
        (emit,) = ingest.take(record(said, header, partition=elsewhere), ingest.fresh(elsewhere))
        assert emit.topic is CONDITION_REPORTS
        assert emit.meta is not None
        assert emit.meta.proofs == (header,)
        assert isinstance(emit.content, bytes)
        raw = RawRecord(b"Node/n1", emit.content, emit.meta.proofs)
        again = Input(CONDITION_REPORTS, HERE, 0, "Node/n1", said, emit.meta, raw, NOW)
        assert refused(ingest.take(again, ingest.fresh())) == ""


def test_the_end_of_the_last_grant_ends_the_rule(key_file: str) -> None:
    ingest = Ingest(key_file, DISK)
    assert refused(ingest.take(record(report(), source="anybody"))) == "source"
    ingest.grant("g0", None)
    assert refused(ingest.take(record(report(), source="anybody"))) == ""
