"""Which reports ProbeGrants cover."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.apiserver.rules.validation.moorage import validate_probe_grant
from moorage.decide.conditions.grants import Grants, ReportClaim, check_signer, is_signed_by, matches_glob, signers_of
from moorage.decide.kubernetes.attributes import User
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.refs import TargetRef
from moorage_schemas.report_rules import Refusal
from moorage_schemas.resources.probe_grants import ProbeGrantSpec

DISK = {
    "source": "probe/disk/*",
    "subjects": [
        {"kind": "User", "name": "ann"},
        {"kind": "Group", "name": "probes"},
        {"kind": "ServiceAccount", "namespace": "ops", "name": "disk"},
    ],
    "targets": [
        {"kind": "Node", "names": ["a*", "c1"]},
        {"kind": "Node", "names": ["b*"], "selector": {"matchLabels": {"disk": "ssd"}}},
    ],
    "conditions": ["Disk*", "MemoryPressure"],
}


def claim(
    source: str = "probe/disk/1",
    target: str = "Node/a1",
    condition: str = "DiskSlow",
    workload: str = "",
    **labels: str,
) -> ReportClaim:
    return ReportClaim(source, TargetRef.parse(target), labels, condition, workload)


def grants(*specs: Any) -> Grants:
    found = Grants()
    for number, spec in enumerate(specs):
        found.put(f"g{number}", ProbeGrantSpec.model_validate(spec))
    return found


@table(
    ("asked", "field"),
    [
        (claim(), ""),
        (claim(target="Node/c1"), ""),
        (claim(target="Node/b1", disk="ssd"), ""),
        (claim(condition="MemoryPressure"), ""),
        (claim(source="probe/disk"), "source"),
        (claim(source="probe/net/1"), "source"),
        (claim(target="Node/c10"), "target"),
        (claim(target="Node/b1"), "target"),
        (claim(target="Node/b1", disk="hdd"), "target"),
        (claim(target="Cluster/a1"), "target"),
        (claim(target="east:Node/a1"), "target"),
        (claim(condition="Ready"), "type"),
        (claim(condition="NetworkSlow"), "type"),
        (claim(condition="DiskPressure"), "type"),  # reserved: the grant has only a pattern of it
        (claim(workload="Pod/shop/web"), "workload"),
    ],
    ids=str,
)
def test_what_a_grant_covers(asked: ReportClaim, field: str) -> None:
    found = grants(DISK).check(asked)
    assert (found.field if found is not None else "") == field
    if found is not None:
        assert found.reason is RefusalReason.FORBIDDEN
        assert found.value in {asked.source, asked.target.key, asked.condition, asked.workload}


@pytest.mark.parametrize(
    ("conditions", "covered"), [(["Healthy"], False), (["Healthy", "Evicted"], True), (["*"], True)]
)
def test_who_acknowledges_evictions_needs_a_grant_that_covers_it(conditions: list[str], *, covered: bool) -> None:
    spec = DISK | {"workloads": True, "conditions": conditions}
    found = grants(spec).check(claim(condition="Evicted", workload="Pod/shop/web"))
    assert (found is None) is covered


def test_a_reserved_condition_of_a_workload_is_none() -> None:
    spec = DISK | {"workloads": True, "conditions": ["*"]}
    assert grants(spec).check(claim(condition="Ready", workload="Pod/shop/web")) is None
    assert grants(spec).check(claim(condition="Ready")) is not None
    assert "without *" in grants(spec).check(claim(condition="Ready")).rule  # type: ignore[union-attr]  # as above


def test_one_grant_has_to_cover_all_of_a_report() -> None:
    """Two grants that each cover a part do not add up to one."""
    narrow = DISK | {"targets": [{"kind": "Node", "names": ["z"]}], "conditions": ["Fan"]}
    assert grants(DISK, narrow).check(claim(condition="Fan")) is not None
    assert grants(DISK, narrow).check(claim(target="Node/z", condition="Fan")) is None


@pytest.mark.parametrize(
    ("user", "may"),
    [
        (User("ann"), True),
        (User("bob", ("probes",)), True),
        (User("system:serviceaccount:ops:disk"), True),
        (User("system:serviceaccount:dev:disk"), False),
        (User("probes"), False),
        (User("bob", ("ann",)), False),
    ],
)
def test_who_may_use_a_source(user: User, may: bool) -> None:  # noqa: FBT001 - a parameter
    assert (grants(DISK).check_user(claim(), user) is None) is may


def test_a_grant_that_is_removed_covers_nothing() -> None:
    found = grants(DISK, DISK | {"source": "other"})
    found.put("g0", None)
    assert found
    assert found.check(claim()) is not None
    found.put("g1", None)
    assert not found


ED = Ed25519PrivateKey.generate()
EC = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> str:
    text: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return text.decode()


def es256(text: bytes) -> bytes:
    return b"".join(
        number.to_bytes(32) for number in utils.decode_dss_signature(EC.sign(text, ec.ECDSA(hashes.SHA256())))
    )


def check_signed(found: Grants, asked: ReportClaim, key_id: str, signature: bytes, text: bytes) -> Refusal | None:
    signers = signers_of(found.with_key(asked.source, key_id), key_id, signature, text)
    return signers if isinstance(signers, Refusal) else check_signer(signers, asked, key_id)


@pytest.mark.parametrize(("key", "sign"), [(ED, ED.sign), (EC, es256)], ids=["Ed25519", "ES256"])
def test_signatures(key: Any, sign: Any) -> None:
    found = grants(
        DISK | {"keys": [{"id": "k1", "publicKey": pem(key)}]}, DISK | {"source": "*", "conditions": ["Fan"]}
    )
    right = sign(b"report")
    assert check_signed(found, claim(), "k1", right, b"report") is None
    wrong: list[tuple[str, ReportClaim, str, bytes, bytes]] = [
        ("signature", claim(), "k1", right, b"another"),
        ("signature", claim(), "k1", right[:-1], b"report"),
        ("signature", claim(), "k1", b"", b"report"),
        ("signature", claim(), "k2", right, b"report"),
        ("signature", claim(source="probe/net/1"), "k1", right, b"report"),
        ("target", claim(target="Node/x"), "k1", right, b"report"),
        # Another grant covers it, but that one does not have the key.
        ("type", claim(condition="Fan"), "k1", right, b"report"),
    ]
    for field, asked, name, signature, text in wrong:
        refusal = check_signed(found, asked, name, signature, text)
        assert refusal is not None
        assert refusal.field == field


def test_a_key_of_another_kind_signs_nothing() -> None:
    assert not is_signed_by(pem(ec.generate_private_key(ec.SECP384R1())), b"x" * 64, b"report")
    assert not is_signed_by("no key", b"x" * 64, b"report")


PATTERNS = st.text("ab*", max_size=8)


@given(PATTERNS, st.text("ab", max_size=12))
def test_patterns_are_as_regular_expressions(pattern: str, text: str) -> None:
    wanted = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert matches_glob(pattern, text) is wanted


SPECS = st.builds(
    lambda source, names, conditions, workloads: ProbeGrantSpec.model_validate(
        {
            "source": source,
            "targets": [{"kind": "Node", "names": names}],
            "conditions": conditions,
            "workloads": workloads,
        }
    ),
    PATTERNS,
    st.lists(PATTERNS, min_size=1, max_size=3),
    st.lists(PATTERNS | st.sampled_from(["Ready", "R*"]), min_size=1, max_size=3),
    st.booleans(),
)
CLAIMS = st.builds(
    lambda source, name, condition, workload: claim(source, f"Node/{name}", condition, workload),
    st.text("ab", min_size=1, max_size=4),
    st.text("ab", min_size=1, max_size=4),
    st.text("ab", min_size=1, max_size=4) | st.just("Ready"),
    st.sampled_from(["", "Pod/shop/web"]),
)


@given(st.lists(SPECS, min_size=1, max_size=4), SPECS, CLAIMS)
def test_a_report_counts_if_one_grant_alone_covers_it(
    specs: list[ProbeGrantSpec], more: ProbeGrantSpec, asked: ReportClaim
) -> None:
    counts = grants(*specs).check(asked) is None
    assert counts is any(grants(spec).check(asked) is None for spec in specs)
    assert not counts or grants(*specs, more).check(asked) is None


@table(
    ("change", "told"),
    [
        ({}, ""),
        ({"source": ""}, "spec.source: Required value"),
        ({"source": "a\nb"}, "spec.source: Invalid value"),
        ({"targets": []}, "spec.targets: Required value"),
        ({"conditions": []}, "spec.conditions: Required value"),
        ({"conditions": [""]}, "spec.conditions[0]: Required value"),
        ({"targets": [{"kind": "Pod"}]}, "spec.targets[0].kind: Unsupported value"),
        ({"targets": [{"kind": "Node", "names": []}]}, "spec.targets[0].names: Invalid value"),
        ({"targets": [{"kind": "Node", "names": ["A*"]}]}, 'spec.targets[0].names[0]: Invalid value: "A*"'),
        ({"subjects": [{"kind": "Robot", "name": "x"}]}, "spec.subjects[0].kind: Unsupported value"),
        ({"subjects": [{"kind": "User", "name": ""}]}, "spec.subjects[0].name: Required value"),
        ({"subjects": [{"kind": "ServiceAccount", "name": "x"}]}, "spec.subjects[0].namespace: Required value"),
        ({"keys": [{"id": "", "publicKey": pem(ED)}]}, "spec.keys[0].id: Required value"),
        ({"keys": [{"id": "a b", "publicKey": pem(ED)}]}, "spec.keys[0].id: Invalid value"),
        ({"keys": [{"id": "a", "publicKey": "x"}]}, "spec.keys[0].publicKey: Invalid value"),
        ({"keys": [{"id": "a", "publicKey": pem(ED)}] * 2}, "spec.keys[1].id: Duplicate value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # keys are others in each run
)
def test_validation(change: dict[str, Any], told: str) -> None:
    errors = validate_probe_grant(ProbeGrantSpec.model_validate(DISK | change))
    assert bool(errors) is bool(told)
    assert all(str(error).startswith(told) for error in errors[:1]), errors


def test_targets_of_a_cluster_are_covered_by_its_name_alone() -> None:
    every = {"source": "*", "conditions": ["*"]}
    home, east = ({**every, "targets": [{"kind": "Node", **more}]} for more in ({}, {"cluster": "east"}))
    for spec, target, covered in (
        (home, "Node/a1", True),
        (home, "east:Node/a1", False),
        (east, "Node/a1", False),
        (east, "east:Node/a1", True),
        (east, "west:Node/a1", False),
    ):
        assert (grants(spec).check(claim(target=target)) is None) is covered, (spec, target)
