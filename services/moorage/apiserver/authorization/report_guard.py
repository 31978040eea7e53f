"""Permissions to report through the gateway, by the ProbeGrants, and the seal of permitted reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import orjson

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.durable_log import Write
from moorage.apiserver.storage.store import Store
from moorage.decide.conditions.grants import Grants, ReportClaim
from moorage.decide.conditions.report_limits import (
    Excess,
    Rate,
    SourceLimits,
    TokenBuckets,
    check_report_size,
    excess,
    microseconds,
)
from moorage.decide.conditions.reports import source_of
from moorage.decide.kubernetes.attributes import OWN_GROUP, REPORTS, Attributes, User
from moorage.runtime.process.clock import Clock
from moorage.runtime.reports.report_limiter import ReportLimiter
from moorage.runtime.reports.report_proofs import SenderCheck, proofs_of
from moorage.runtime.reports.report_seals import Sealed, Seals
from moorage.runtime.service import Input
from moorage_schemas.condition import ConditionReported
from moorage_schemas.report_rules import Refusal
from moorage_schemas.resources.probe_grants import ProbeGrant
from moorage_schemas.signing import SEAL_HEADER, SignedReport, parse_signature

GRANT: Final = "ProbeGrant"
_ANY: Final = Attributes("create", OWN_GROUP, "v1alpha1", REPORTS, "any")
"""The permission that replaces a grant."""

_MOST: Final = 10_000
"""How many sources and users have a token bucket of their own. Further ones of a grant share one."""

_NO_LIMITS: Final = (SourceLimits(),)


class ReportGuard:
    """Follows the grants of a store.

    `rate` is how much a user may report for a source to which no grant sets a limit; None for no limit.
    """

    def __init__(
        self,
        store: Store,
        authorizer: Authorizer,
        clock: Clock,
        seals: Seals | None,
        *,
        rate: Rate | None,
        metrics: Metrics,
    ) -> None:
        self._rate = rate
        self._metrics = metrics
        self._buckets = TokenBuckets(_MOST)
        self._authorizer = authorizer
        self._clock = clock
        self._seals = seals
        self._grants = Grants()
        store.tell(GRANT, self._changed)

    def _changed(self, object_id: ObjectId, json: bytes | None) -> None:
        spec = None if json is None else ProbeGrant.model_validate(orjson.loads(json), extra="ignore").spec
        self._grants.put(object_id.name, spec)

    def check(self, claim: ReportClaim, user: User, size: int) -> Refusal | Sealed:
        """Return what a seal may state about a user's report, or why the user may not send it now."""
        if self._authorizer.authorize(user, _ANY).allowed:
            return self._excess(claim.source, user, _NO_LIMITS) or Sealed.ANY
        if not self._grants:
            return self._excess(claim.source, user, _NO_LIMITS) or Sealed.GRANTED
        limits = [one.limits for one in self._grants.of_user(claim.source, user)]
        refusal = self._grants.check_user(claim, user) or check_report_size(size, limits)
        return refusal or self._excess(claim.source, user, limits) or Sealed.GRANTED

    def _excess(self, source: str, user: User, limits: Sequence[SourceLimits]) -> Excess | None:
        """Count a report. Return why it is too much, if no limit lets it through."""
        now, waits = microseconds(self._clock.now()), []
        for one in limits:
            rate, key = one.rate or self._rate, (one.grant, source, user.name)
            if rate is None or self._buckets.take(key, rate, now):
                return None
            waits.append(excess(source, one, rate, self._buckets.wait(key, rate, now)))
        found = min(waits, key=lambda one: one.seconds)
        self._metrics.reports_limited.labels(found.limit).inc()
        return found

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
        """Return what a seal may state about a report that is sent again, or why it may not be.

        What its record shows of who has written it is judged by the present grants. Who sends it again vouches for it
        only if its first sender might report anything. `labels` are the present labels of its target, and `at` is when
        it was refused.
        """
        if not self._grants:
            return Sealed.GRANTED
        # It was counted when it first came.
        check = SenderCheck(self._grants, self._seals, ReportLimiter(), default=None, now=at, skew=skew)
        judged = check.judge(record, report, labels)
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
        """Return the header that seals a report. Empty if it cannot be checked."""
        if self._seals is None:
            return {}
        meta = write.meta
        report = SignedReport(write.key, meta.id, meta.source, meta.type, write.value or b"")
        seal = self._seals.seal(report, sealed, int(self._clock.now().timestamp()))
        return {SEAL_HEADER: seal.header()}
