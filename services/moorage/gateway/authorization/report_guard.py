"""Who may report what through the gateway, by the ProbeGrants, and the seal that tells condition-ingest so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import orjson

from moorage.core.authorization.attributes import OWN_GROUP, REPORTS, Attributes, User
from moorage.core.conditions.grants import Grants, ReportClaim
from moorage.core.conditions.reports import Refusal, source_of
from moorage.gateway.authorization.authorizer import Authorizer
from moorage.gateway.durable_log import Write
from moorage.gateway.store import Store
from moorage.kinds.status.records import ObjectId
from moorage.runtime.clock import Clock
from moorage.runtime.report_proofs import judge_sender, proofs_of
from moorage.runtime.report_seals import Sealed, Seals
from moorage.runtime.service import Input
from moorage_schemas.condition import ConditionReported
from moorage_schemas.resources.probe_grants import ProbeGrant
from moorage_schemas.signing import SEAL_HEADER, SignedReport, parse_signature

GRANT: Final = "ProbeGrant"
_ANY: Final = Attributes("create", OWN_GROUP, "v1alpha1", REPORTS, "any")
"""What somebody may do who needs no grant."""


class ReportGuard:
    """Follows the grants of a store.

    Args:
        store: the present objects.
        authorizer: says who needs no grant.
        clock: gives the time of seals.
        seals: makes them. None if nobody can check them.
    """

    def __init__(self, store: Store, authorizer: Authorizer, clock: Clock, seals: Seals | None) -> None:
        self._authorizer = authorizer
        self._clock = clock
        self._seals = seals
        self._grants = Grants()
        store.tell(GRANT, self._changed)

    def _changed(self, object_id: ObjectId, json: bytes | None) -> None:
        spec = None if json is None else ProbeGrant.model_validate(orjson.loads(json), extra="ignore").spec
        self._grants.put(object_id.name, spec)

    def check(self, claim: ReportClaim, user: User) -> Refusal | Sealed:
        """Return what a seal may say of a user's report, or why the user may not send it."""
        if self._authorizer.authorize(user, _ANY).allowed:
            return Sealed.ANY
        refusal = self._grants.check_user(claim, user) if self._grants else None
        return refusal or Sealed.GRANTED

    def check_again(
        self,
        record: Input,
        report: ConditionReported,
        labels: Mapping[str, str],
        user: User,
        *,
        at: datetime,
        skew: timedelta,
    ) -> Refusal | Sealed:
        """Return what a seal may say of a report that is sent again, or why it may not be.

        What its record shows of who has written it is judged by the present grants. Who sends it again vouches for it
        only if somebody has sent it who might report anything.

        Args:
            record: its record, as it was refused.
            report: the report.
            labels: the present labels of its target.
            user: who sends it again.
            at: when it was refused.
            skew: by how much the clocks of two machines may differ.
        """
        if not self._grants:
            return Sealed.GRANTED
        judged = judge_sender(record, report, grants=self._grants, seals=self._seals, labels=labels, now=at, skew=skew)
        if judged.refusal is not None:
            return judged.refusal
        seal = parse_signature(dict(proofs_of(record.raw)).get(SEAL_HEADER, b""))
        if self._seals is None or seal is None or seal.signer != Sealed.ANY:
            return Sealed.GRANTED
        if self._authorizer.authorize(user, _ANY).allowed:
            return Sealed.ANY
        workload = report.workload.key if report.workload is not None else ""
        source = source_of(report, record.meta.source)
        claim = ReportClaim(source, report.target, labels, report.type, workload)
        return self._grants.check(claim) or Sealed.GRANTED

    def sealed(self, write: Write, sealed: Sealed) -> Mapping[str, bytes]:
        """Return the header that seals a report. Empty if nobody can check it."""
        if self._seals is None:
            return {}
        meta = write.meta
        report = SignedReport(write.key, meta.id, meta.source, meta.type, write.value or b"")
        seal = self._seals.seal(report, sealed, int(self._clock.now().timestamp()))
        return {SEAL_HEADER: seal.header()}
