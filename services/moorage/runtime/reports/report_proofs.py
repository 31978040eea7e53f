"""The writer of a report: the seal or the signature of its record, judged by the ProbeGrants and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from moorage.decide.conditions.grants import Grants, ReportClaim, check_signer, forbidden, signers_of
from moorage.decide.conditions.report_limits import Excess, Rate, SourceLimits, check_report_size, microseconds
from moorage.decide.conditions.reports import source_of
from moorage.runtime.reports.report_limiter import REFUSED_LIMIT, ReportLimiter
from moorage.runtime.reports.report_seals import Sealed, Seals
from moorage.runtime.service import Input, RawRecord
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import is_structured
from moorage_schemas.report_rules import Refusal
from moorage_schemas.signing import (
    OLDEST,
    SEAL_HEADER,
    SIGNATURE_HEADER,
    Signature,
    SignedReport,
    parse_signature,
    signed_bytes,
)
from moorage_schemas.times import format_time

PROOFS: Final = (SEAL_HEADER, SIGNATURE_HEADER)
_NEEDED: Final = "must come from a gateway, or be signed with a key of a ProbeGrant of this source"


def proofs_of(raw: RawRecord | None) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of a record that prove its writer. Records in structured mode have no valid ones."""
    if raw is None or is_structured(raw.headers):
        return ()
    return tuple((name, value) for name, value in raw.headers if name in PROOFS and value)


class Judged(NamedTuple):
    """The judgement of the grants on a report."""

    refusal: Refusal | None = None
    signed: datetime | None = None
    """When it was signed or sealed. None if that was not looked at."""


COUNTS: Final = Judged()
_NO_LIMITS: Final = (SourceLimits(),)


class SenderCheck(NamedTuple):
    """Judges whether reports may count, by their writers and by their number."""

    grants: Grants
    """Those of the fleet."""

    seals: Seals | None
    """Checks the seals of gateways. Without it, reports that are not signed count."""

    limiter: ReportLimiter
    default: Rate | None
    """The rate of sources to which no grant sets one. None for no limit."""

    now: datetime
    skew: timedelta
    """By how much the clocks of two machines may differ."""

    def judge(self, record: Input, report: ConditionReported, labels: Mapping[str, str]) -> Judged:
        """Judge a report.

        Excess reports of a source are found before their signature is checked, because that takes most of the time. A
        report counts for its source's limit only if the signature is right, so no writer uses up another's limit.
        """
        proofs = dict(proofs_of(record.raw))
        if self.seals is None:
            proofs.pop(SEAL_HEADER, None)  # without the key, seals are ignored
        source = source_of(report, record.meta.source)
        at = microseconds(record.written or self.now)
        if not self.grants or (self.seals is None and not proofs):
            return self._unproven(record, report, source, proofs.get(SEAL_HEADER), at)
        field, header = ("seal", SEAL_HEADER) if SEAL_HEADER in proofs else ("signature", SIGNATURE_HEADER)
        proof = proofs.get(header)
        # Without the time and the signature it is the id of the key. Reports with a seal are never too many.
        who = (source, proof.rsplit(b".", 2)[0] if proof is not None and header == SIGNATURE_HEADER else b"")
        if (much := self.limiter.closed(who, at)) is not None:
            return Judged(much)
        found = self._read(field, source, proof)
        if isinstance(found, Refusal):
            return self._refused(source, at, found)
        signed, what = datetime.fromtimestamp(found.seconds, UTC), _signed_report(record, report)
        claim = ReportClaim(source, report.target, labels, report.type, report.workload.key if report.workload else "")
        if self.seals is None or header == SIGNATURE_HEADER:
            refusal = self._check_signed(claim, what, found, at)
            if isinstance(refusal, Excess) and refusal.limit != REFUSED_LIMIT:
                self.limiter.close(who, at, refusal)
            return Judged(refusal, signed)
        content = self.seals.read(what, found)
        if content is None:
            rule = "must be the seal of a gateway for this report"
            return self._refused(source, at, forbidden("seal", found.signer, rule))
        # The gateway has already limited its users' reports.
        return Judged(None if content is Sealed.ANY else self.grants.check(claim), signed)

    def _read(self, field: str, source: str, proof: bytes | None) -> Signature | Refusal:
        """Read a seal or a signature, and check its time."""
        if proof is None:
            return forbidden("source", source, _NEEDED)
        found = parse_signature(proof)
        if found is None:
            rule = "must be signer.seconds.signature, the signature in base64url"
            return forbidden(field, proof.decode("latin-1"), rule)
        return _check_age(field, found, self.now, self.skew) or found

    def _unproven(self, record: Input, report: ConditionReported, source: str, seal: bytes | None, at: int) -> Judged:
        """Judge a report whose writer is irrelevant."""
        if self.default is None:
            return COUNTS
        found = parse_signature(seal) if seal is not None else None
        if self.seals is not None and found is not None and self.seals.read(_signed_report(record, report), found):
            return COUNTS  # the gateway has already limited its users' reports
        return Judged(self.limiter.take(source, _NO_LIMITS, self.default, at))

    def _refused(self, source: str, at: int, refusal: Refusal) -> Judged:
        """Count the refusal of a report whose writer is unknown. Sources that no grant names are counted together."""
        who = ("unsigned", source if self.grants.names(source) else "")
        return Judged(self.limiter.refuse(who, source, at, refusal))

    def _check_signed(self, claim: ReportClaim, what: SignedReport, found: Signature, at: int) -> Refusal | None:
        source, key, limiter = claim.source, found.signer, self.limiter
        named = self.grants.with_key(source, key)
        if not named:
            rule = f"must be in a ProbeGrant that has a key with the id {key!r}"
            return self._refused(source, at, forbidden("source", source, rule)).refusal
        much = limiter.wait(source, [one.limits for one in named], self.default, at)
        # Then reports that forge this key silence its holder. Otherwise they would silence all keys.
        if (silenced := much or limiter.refused_often(("forged", source, key), source, at)) is not None:
            return silenced
        signers = signers_of(named, key, found.signature, signed_bytes(what, key, found.seconds))
        if isinstance(signers, Refusal):
            return limiter.refuse(("forged", source, key), source, at, signers)
        limits = [one.limits for one in signers]
        much = limiter.take(source, limits, self.default, at)
        if much is not None:
            return much
        refusal = check_report_size(len(what.value), limits) or check_signer(signers, claim, key)
        return None if refusal is None else limiter.refuse(("signed", source, key), source, at, refusal)


def _signed_report(record: Input, report: ConditionReported) -> SignedReport:
    value = (record.raw.value if record.raw is not None else None) or b""
    return SignedReport(report.target.key, record.meta.id, record.meta.source, record.meta.type, value)


def _check_age(field: str, found: Signature, now: datetime, skew: timedelta) -> Refusal | None:
    """Check that a signature is not so old that its report may have been in the topic before, and not of the future."""
    earliest, latest = now - OLDEST - skew, now + skew
    if earliest.timestamp() <= found.seconds <= latest.timestamp():
        return None
    rule = f"must be of between {format_time(earliest)} and {format_time(latest)}, in seconds since 1970"
    return forbidden(f"{field} time", str(found.seconds), rule)
