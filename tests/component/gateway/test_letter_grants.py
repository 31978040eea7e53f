"""A report that is sent again counts by who has written it, and not by who sends it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.component.gateway.double import NOW, Fixture, Json
from tests.component.gateway.memory_records import MemoryRecords
from tests.component.gateway.test_access import allow, call
from tests.component.gateway.test_dead_letters import LETTERS, letter
from tests.component.gateway.test_probe_grants import GRANTS, TOKENS, seal_of, seals

from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.reports.report_seals import Sealed
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionReported
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.signing import SEAL_HEADER, SIGNATURE_HEADER, Signature, SignedReport, signed_bytes
from moorage_schemas.topics import CONDITION_REPORTS

KEY = Ed25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
SECONDS = int(NOW.timestamp())
ANY = {"verbs": ["create"], "apiGroups": ["moorage.io"], "resources": ["conditionreports", "conditionreports/any"]}
REPLAY = {"verbs": ["create"], "apiGroups": ["moorage.io"], "resources": ["deadletters/replay"]}


def grant(condition: str = "Disk*") -> Json:
    return {
        "source": "probe/rack",
        "subjects": [{"kind": "User", "name": "ann"}],
        "targets": [{"kind": "Node", "names": ["n*"]}],
        "conditions": [condition],
        "keys": [{"id": "k1", "publicKey": PUBLIC}],
    }


def what(found: DeadLettered, source: str = "probe/rack") -> SignedReport:
    """What is signed of the report in a letter."""
    return SignedReport("Node/n1", "r1", source, CONDITION_REPORTS.event_type, found.original.encode())


def signed(found: DeadLettered, seconds: int = SECONDS) -> Mapping[str, str]:
    text = signed_bytes(what(found), "k1", seconds)
    return {SIGNATURE_HEADER: Signature("k1", seconds, KEY.sign(text)).header().decode()}


def sealed(folder: Path, says: Sealed, found: DeadLettered, source: str = "probe/rack") -> Mapping[str, str]:
    return {SEAL_HEADER: seals(folder).seal(what(found, source), says, SECONDS).header().decode()}


async def fleet(folder: Path, *letters: DeadLettered, spec: Json | None) -> Fixture:
    """A gateway with a node. `ops` may send letters again and report anything; `eve` may send letters again."""
    identities = GatewayIdentities(folder)
    identities.ensure()
    tokens = folder / "people.csv"
    tokens.write_text(TOKENS)
    kept = MemoryRecords()
    for one in letters:
        kept.add(0, one)
    settings = Settings(token_auth_file=str(tokens), service_account_signing_key_file=str(identities.signing_key))
    gateway = Fixture(settings=settings, letters=kept)
    await allow(gateway, "operators", [{"kind": "User", "name": "ops"}], REPLAY, ANY)
    await allow(gateway, "others", [{"kind": "User", "name": "eve"}], REPLAY)
    root = {"authorization": "Bearer root"}
    await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}, headers=root)
    if spec is not None:
        await gateway.ok("POST", GRANTS, {"metadata": {"name": "g"}, "spec": spec}, headers=root)
    return gateway


async def replayed(gateway: Fixture, user: str, name: str = "0-0") -> tuple[int, str]:
    """The code of a replay, and the field that was refused, if one was."""
    answer = await call(gateway, user, "POST", f"{LETTERS}/{name}/replay")
    causes = answer.json().get("details", {}).get("causes") or [{}]
    return answer.status_code, causes[0].get("field", "")


def words_of(gateway: Fixture, folder: Path) -> list[Sealed | None]:
    """What the seals of the reports say that were written."""
    return [seal_of(one, folder) for one in gateway.log.reported if isinstance(one.event, ConditionReported)]


async def test_nobody_vouches_for_a_report_that_shows_no_writer(tmp_path: Path) -> None:
    """Not even somebody who may report anything: he would have to report it as his own."""
    for reason in (RefusalReason.FORBIDDEN, RefusalReason.UNKNOWN_TARGET):
        gateway = await fleet(tmp_path, letter(reason), spec=grant())
        assert await replayed(gateway, "ops") == (403, "source")
        assert words_of(gateway, tmp_path) == []


async def test_a_signed_report_counts_by_the_grants_that_there_are_now(tmp_path: Path) -> None:
    plain = letter(RefusalReason.FORBIDDEN)
    good = letter(RefusalReason.FORBIDDEN, headers=signed(plain))
    gateway = await fleet(tmp_path, good, spec=grant())
    assert await replayed(gateway, "eve") == (201, "")
    assert words_of(gateway, tmp_path) == [Sealed.GRANTED]
    narrower = await fleet(tmp_path, good, spec=grant("Memory*"))
    assert await replayed(narrower, "ops") == (403, "type")
    assert words_of(narrower, tmp_path) == []


async def test_a_signature_counts_as_of_the_time_at_which_it_was_refused(tmp_path: Path) -> None:
    plain = letter()
    late = letter(headers=signed(plain, SECONDS - 2 * 86_400))
    in_time = letter(headers=signed(plain, SECONDS - 2 * 86_400), refused_time=NOW - timedelta(days=2))
    gateway = await fleet(tmp_path, late, in_time, spec=grant())
    assert await replayed(gateway, "ops", "0-0") == (403, "signature time")
    assert await replayed(gateway, "ops", "0-1") == (201, "")


@pytest.mark.parametrize("change", ["value", "id", "source", "signature"])
async def test_a_forged_report_is_refused_however_often_it_is_sent_again(tmp_path: Path, change: str) -> None:
    plain = letter(RefusalReason.FORBIDDEN)
    headers = dict(signed(plain))
    original = plain.original
    match change:
        case "value":
            original = json.dumps(json.loads(original) | {"status": "False"})
        case "id":
            headers["ce_id"] = "other"
        case "source":
            headers["ce_source"] = "probe/other"
        case _:
            signer, seconds, signature = headers[SIGNATURE_HEADER].rsplit(".", 2)
            headers[SIGNATURE_HEADER] = f"{signer}.{seconds}.{signature[::-1]}"
    forged = letter(RefusalReason.FORBIDDEN, original=original, headers=headers)
    gateway = await fleet(tmp_path, forged, spec=grant())
    for _ in range(2):
        code, field = await replayed(gateway, "ops")
        assert (code, field) in {(403, "signature"), (403, "source")}
    assert words_of(gateway, tmp_path) == []


async def test_what_somebody_sent_who_may_report_anything_needs_such_a_user_again(tmp_path: Path) -> None:
    source = "cli/root"
    plain = letter(source=source)
    key(tmp_path)
    by_root = letter(source=source, headers=sealed(tmp_path, Sealed.ANY, plain, source))
    gateway = await fleet(tmp_path, by_root, spec=grant())
    assert await replayed(gateway, "eve") == (403, "source"), "no grant covers it, and eve may not report anything"
    assert words_of(gateway, tmp_path) == []
    assert await replayed(gateway, "ops") == (201, "")
    assert words_of(gateway, tmp_path) == [Sealed.ANY]


async def test_a_granted_report_needs_a_grant_again(tmp_path: Path) -> None:
    key(tmp_path)
    plain = letter()
    good = letter(headers=sealed(tmp_path, Sealed.GRANTED, plain))
    gateway = await fleet(tmp_path, good, spec=grant())
    assert await replayed(gateway, "eve") == (201, "")
    assert words_of(gateway, tmp_path) == [Sealed.GRANTED]
    other = await fleet(tmp_path, good, spec=grant() | {"source": "probe/other"})
    assert await replayed(other, "ops") == (403, "source")


async def test_a_seal_of_nobody_is_refused(tmp_path: Path) -> None:
    key(tmp_path / "elsewhere")
    plain = letter()
    forged = letter(headers=sealed(tmp_path / "elsewhere", Sealed.ANY, plain))
    gateway = await fleet(tmp_path, forged, spec=grant())
    assert await replayed(gateway, "ops") == (403, "seal")


async def test_without_grants_every_report_counts(tmp_path: Path) -> None:
    gateway = await fleet(tmp_path, letter(), spec=None)
    assert await replayed(gateway, "eve") == (201, "")


async def test_who_may_not_send_letters_again_is_refused(tmp_path: Path) -> None:
    gateway = await fleet(tmp_path, letter(), spec=None)
    for user in ("ann", "bob"):
        answer = await call(gateway, user, "POST", f"{LETTERS}/0-0/replay")
        assert answer.status_code == 403
        assert 'cannot create resource "deadletters/replay"' in answer.json()["message"]
        assert (await call(gateway, user, "GET", LETTERS)).status_code == 403
    assert (await call(gateway, "eve", "GET", LETTERS)).status_code == 403, "to send again is not to read"


def key(folder: Path) -> None:
    """Make the signing key of a gateway."""
    GatewayIdentities(folder).ensure()
