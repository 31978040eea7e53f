"""The reports that count by the ProbeGrants of a fleet, and their signatures (docs/authentication.md, "Probes").

While no grant exists, every report counts. Otherwise a report counts only if a grant covers its source, its target, its
condition and, if it is about a workload, that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from moorage.decide.conditions.report_limits import SourceLimits
from moorage.decide.kubernetes.names import account_user
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.taints.desired.from_conditions import is_built_in
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.refs import TargetRef
from moorage_schemas.report_rules import Refusal
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.resources.probe_grants import ProbeGrantSpec, ProbeSubject

PublicKey = Ed25519PublicKey | ec.EllipticCurvePublicKey

RULE: Final = "must be a public key in PEM: Ed25519, or ECDSA with P-256"

_HALF: Final = 32  # bytes of each of the two numbers of an ES256 signature


@lru_cache(maxsize=1024)
def public_key(pem: str) -> PublicKey | None:
    """Return the key in a PEM text. None if it is of another kind, or none at all."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(key, Ed25519PublicKey):
        return key
    return key if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1) else None


@lru_cache(maxsize=512)  # a report is judged twice if tables have to be read first
def is_signed_by(pem: str, signature: bytes, signed: bytes) -> bool:
    """Return whether a signature over bytes is that of a key.

    Args:
        pem: the public key.
        signature: of Ed25519, or of ES256 as in JWS: the two numbers, of 32 bytes each.
        signed: the signed bytes.
    """
    key = public_key(pem)
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, signed)
        elif key is not None and len(signature) == 2 * _HALF:
            numbers = (int.from_bytes(signature[:_HALF]), int.from_bytes(signature[_HALF:]))
            key.verify(utils.encode_dss_signature(*numbers), signed, ec.ECDSA(hashes.SHA256()))
        else:
            return False
    except InvalidSignature:
        return False
    return True


_ANY: Final = "*"


class ReportSender(Protocol):
    """A user who reports through the gateway."""

    @property
    def name(self) -> str:
        """The name of the user."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the user."""


class ReportClaim(NamedTuple):
    """The claim of a report."""

    source: str
    target: TargetRef
    labels: Mapping[str, str]
    """The labels of the target, as it is declared."""

    condition: str
    """The type of the condition."""

    workload: str = ""
    """The key of the workload that it is about. Empty if it is about the target."""


_FIELDS: Final = ("source", "target", "type", "workload")
"""The fields of a report in the order in which a grant is compared with them."""


def matches_glob(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern, in which `*` stands for any text. The time is linear in the text."""
    first, *rest = pattern.split(_ANY)
    if not rest:
        return pattern == text
    *middle, last = rest
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


@dataclass(frozen=True, slots=True)
class _Targets:
    kind: str
    names: tuple[str, ...] | None
    selector: LabelSelector | None
    cluster: str = ""

    def select(self, claim: ReportClaim) -> bool:
        target = claim.target
        if (target.kind.value, target.cluster) != (self.kind, self.cluster):
            return False
        if self.names is not None and not any(matches_glob(name, target.name) for name in self.names):
            return False
        return self.selector is None or matches_labels(self.selector, claim.labels)


@dataclass(frozen=True, slots=True)
class Grant:
    """A ProbeGrant, prepared to be compared with reports."""

    name: str
    source: str
    users: frozenset[str]
    """The names of the users that may use its source through the gateway. A service account is a user."""

    groups: frozenset[str]
    """The groups whose members may."""

    targets: tuple[_Targets, ...]
    conditions: tuple[str, ...]
    workloads: bool
    keys: Mapping[str, str]
    """The public keys, by their ids."""

    limits: SourceLimits

    @classmethod
    def of(cls, name: str, spec: ProbeGrantSpec) -> Grant:
        """Prepare a grant. Parts of it that name nothing cover nothing."""
        subjects = spec.subjects or ()
        return cls(
            name=name,
            source=spec.source,
            users=frozenset(_user_name(one) for one in subjects) - {""},
            groups=frozenset(one.name for one in subjects if one.kind == "Group"),
            targets=tuple(
                _Targets(one.kind, None if one.names is None else tuple(one.names), one.selector, one.cluster)
                for one in spec.targets
            ),
            conditions=tuple(spec.conditions),
            workloads=spec.workloads,
            keys={one.id: one.public_key for one in spec.keys or ()},
            limits=SourceLimits.of(name, spec.limits),
        )

    def is_for(self, sender: ReportSender) -> bool:
        """Return whether a user may use its source through the gateway."""
        return sender.name in self.users or not self.groups.isdisjoint(sender.groups)

    def covered(self, claim: ReportClaim) -> int:
        """Return how many of the fields of `_FIELDS` it covers, up to the first one that it does not."""
        if not matches_glob(self.source, claim.source):
            return 0
        if not any(one.select(claim) for one in self.targets):
            return 1
        # Reports about a workload make no taints, so nothing is reserved there.
        is_reserved = not claim.workload and is_built_in(claim.target.kind, claim.condition)
        if is_reserved and claim.condition not in self.conditions:
            return 2
        if not any(matches_glob(one, claim.condition) for one in self.conditions):
            return 2
        return 3 if claim.workload and not self.workloads else 4


class Grants:
    """The grants of a fleet."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}
        self._of_source: dict[str, list[Grant]] = {}
        """Those whose source has no `*`, by that."""

        self._patterns: list[Grant] = []
        self.changes = 0
        """Grows with each change."""

    def __bool__(self) -> bool:
        """Return whether there is one."""
        return bool(self._grants)

    def put(self, name: str, spec: ProbeGrantSpec | None) -> None:
        """Add, replace or (None) remove a grant."""
        self.changes += 1
        if spec is None:
            self._grants.pop(name, None)
        else:
            self._grants[name] = Grant.of(name, spec)
        self._patterns = [one for one in self._grants.values() if _ANY in one.source]
        self._of_source = {}
        for one in self._grants.values():
            if _ANY not in one.source:
                self._of_source.setdefault(one.source, []).append(one)

    def _about(self, source: str) -> Iterator[Grant]:
        yield from self._of_source.get(source, ())
        yield from (one for one in self._patterns if matches_glob(one.source, source))

    def check(self, claim: ReportClaim) -> Refusal | None:
        """Check a report whose sender the gateway has checked already."""
        return _check(self._about(claim.source), claim, "")

    def check_user(self, claim: ReportClaim, user: ReportSender) -> Refusal | None:
        """Check a report that a user sends through the gateway."""
        return _check(self.of_user(claim.source, user), claim, f" that has the user {user.name!r} among its subjects")

    def of_user(self, source: str, user: ReportSender) -> list[Grant]:
        """Return the grants that let a user use a source."""
        return [one for one in self._about(source) if one.is_for(user)]

    def names(self, source: str) -> bool:
        """Return whether a grant is about a source."""
        return next(self._about(source), None) is not None

    def with_key(self, source: str, key_id: str) -> list[Grant]:
        """Return the grants of a source that have a key with an id. The holder of the key is not yet verified."""
        return [one for one in self._about(source) if key_id in one.keys]


def signers_of(named: Iterable[Grant], key_id: str, signature: bytes, text: bytes) -> list[Grant] | Refusal:
    """Return the grants by which the signer of a report may use its source, or the reason of a refusal.

    Args:
        named: the grants that have a key with that id.
        key_id: the id of the key.
        signature: the signature.
        text: the signed bytes.
    """
    named = list(named)
    right = {key for key in {one.keys[key_id] for one in named} if is_signed_by(key, signature, text)}
    if not right:
        return forbidden("signature", key_id, "must be a signature of this report by the key with that id")
    return [one for one in named if one.keys[key_id] in right]


def check_signer(grants: Iterable[Grant], claim: ReportClaim, key_id: str) -> Refusal | None:
    """Check that one of the grants of a signer, which `signers_of` returned, covers a report."""
    return _check(grants, claim, f" that has the key {key_id!r}")


def forbidden(field: str, value: str, rule: str) -> Refusal:
    """Return a refusal of a report that its sender may not send."""
    return Refusal(RefusalReason.FORBIDDEN, field=field, value=value, rule=rule)


def _check(grants: Iterable[Grant], claim: ReportClaim, whose: str) -> Refusal | None:
    """Check that one grant covers a report. The refusal names the first field that no grant covers."""
    most = 0
    for grant in grants:
        covered = grant.covered(claim)
        if covered == len(_FIELDS):
            return None
        most = max(most, covered)
    value = (claim.source, claim.target.key, claim.condition, claim.workload)[most]
    hint = ""
    if _FIELDS[most] == "type" and is_built_in(claim.target.kind, claim.condition):
        hint = "; taints follow from it, so the grant must name it without *"
    before = f", for the {' and the '.join(_FIELDS[:most])} of this report" if most else ""
    return forbidden(_FIELDS[most], value, f"must be covered by a ProbeGrant{whose}{before}{hint}")


def _user_name(subject: ProbeSubject) -> str:
    """Return the name of the user that a subject is; empty if it is none."""
    if subject.kind == "ServiceAccount" and subject.namespace:
        return account_user(subject.namespace, subject.name)
    return subject.name if subject.kind == "User" else ""
