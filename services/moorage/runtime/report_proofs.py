"""Who has written a report: the seal or the signature of its record, judged by the ProbeGrants."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from moorage.core.conditions.grants import Grants, ReportClaim, forbidden
from moorage.core.conditions.reports import Refusal, source_of
from moorage.runtime.report_seals import Sealed, Seals
from moorage.runtime.service import Input, RawRecord
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import is_structured
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
    """Return the headers of a record that show who has written it. Records in structured mode have none that count."""
    if raw is None or is_structured(raw.headers):
        return ()
    return tuple((name, value) for name, value in raw.headers if name in PROOFS and value)


class Judged(NamedTuple):
    """What the grants say of a report."""

    refusal: Refusal | None = None
    signed: datetime | None = None
    """When it was signed or sealed. None if that was not looked at."""


_COUNTS: Final = Judged()


def judge_sender(
    record: Input,
    report: ConditionReported,
    *,
    grants: Grants,
    seals: Seals | None,
    labels: Mapping[str, str],
    now: datetime,
    skew: timedelta,
) -> Judged:
    """Judge whether a report may count, by who has written it.

    Args:
        record: the record of the report.
        report: the report.
        grants: those of the fleet.
        seals: checks the seals of gateways. Without it, reports that are not signed count.
        labels: the labels of the target.
        now: the present time.
        skew: by how much the clocks of two machines may differ.
    """
    proofs = dict(proofs_of(record.raw))
    if seals is None:
        proofs.pop(SEAL_HEADER, None)  # who cannot check seals does not ask for them
    if not grants or (seals is None and not proofs):
        return _COUNTS
    source = source_of(report, record.meta.source)
    claim = ReportClaim(source, report.target, labels, report.type, report.workload.key if report.workload else "")
    if not proofs:
        return Judged(forbidden("source", source, _NEEDED))
    field, header = ("seal", SEAL_HEADER) if SEAL_HEADER in proofs else ("signature", SIGNATURE_HEADER)
    found = parse_signature(proofs[header])
    if found is None:
        shown = proofs[header].decode("latin-1")
        return Judged(forbidden(field, shown, "must be signer.seconds.signature, the signature in base64url"))
    if (wrong := _check_age(field, found, now, skew)) is not None:
        return Judged(wrong)
    value = (record.raw.value if record.raw is not None else None) or b""
    what = SignedReport(report.target.key, record.meta.id, record.meta.source, record.meta.type, value)
    if seals is not None and header == SEAL_HEADER:
        refusal = _check_sealed(claim, what, found, grants=grants, seals=seals)
    else:
        refusal = grants.check_signed(
            claim, found.signer, found.signature, lambda: signed_bytes(what, found.signer, found.seconds)
        )
    return Judged(refusal, datetime.fromtimestamp(found.seconds, UTC))


def _check_sealed(
    claim: ReportClaim, what: SignedReport, found: Signature, *, grants: Grants, seals: Seals
) -> Refusal | None:
    says = seals.says(what, found)
    if says is None:
        return forbidden("seal", found.signer, "must be the seal of a gateway for this report")
    return None if says is Sealed.ANY else grants.check(claim)


def _check_age(field: str, found: Signature, now: datetime, skew: timedelta) -> Refusal | None:
    """Check that a signature is not so old that its report may have been in the topic before, and not of the future."""
    earliest, latest = now - OLDEST - skew, now + skew
    if earliest.timestamp() <= found.seconds <= latest.timestamp():
        return None
    rule = f"must be of between {format_time(earliest)} and {format_time(latest)}, in seconds since 1970"
    return forbidden(f"{field} time", str(found.seconds), rule)
