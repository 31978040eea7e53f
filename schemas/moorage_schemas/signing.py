"""How a report in Kafka shows who has written it: the exact bytes that are signed, and the header with the signature.

A probe that writes to Kafka signs its reports with a key of its `ProbeGrant` (`SIGNATURE_HEADER`). The gateway seals
those that it has accepted over HTTP (`SEAL_HEADER`). Both headers have the same form, and both are over the same bytes.
This module has no cryptography, so it needs no further package.
"""

from __future__ import annotations

import base64
import binascii
from datetime import timedelta
from typing import Final, NamedTuple

SIGNATURE_HEADER: Final = "ce_mooragesignature"
"""The header with a probe's signature."""

SEAL_HEADER: Final = "ce_moorageseal"
"""The header with the gateway's seal."""

OLDEST: Final = timedelta(days=1)
"""The age up to which a signature counts. The topic keeps reports for as long."""

_VERSION: Final = b"moorage-report-v1"
_PARTS: Final = 3
_LONGEST_NUMBER: Final = 18


class SignedReport(NamedTuple):
    """What is signed of a report."""

    key: str
    """The key of the target: `Node/n1`."""

    id: str
    source: str
    type: str
    """The type of the event."""

    value: bytes
    """The record's value, as it is in the topic."""


class Signature(NamedTuple):
    """The content of a signature's header: `signer.seconds.signature`."""

    signer: str
    """The id of the key, or what the gateway's seal says."""

    seconds: int
    """When it was signed, in whole seconds since 1970 (UTC)."""

    signature: bytes

    def header(self) -> bytes:
        """The value of the header. The signature is in base64url without padding."""
        text = base64.urlsafe_b64encode(self.signature).rstrip(b"=")
        return b"%s.%d.%s" % (self.signer.encode(), self.seconds, text)


def parse_signature(value: bytes) -> Signature | None:
    """Read the value of a header. None if it has another form."""
    parts = value.rsplit(b".", _PARTS - 1)
    if len(parts) != _PARTS:
        return None
    signer, seconds, text = parts
    if not signer or not seconds.isdigit() or len(seconds) > _LONGEST_NUMBER:
        return None
    try:
        signature = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return Signature(signer.decode(), int(seconds), signature)
    except (binascii.Error, ValueError):
        return None


def signed_bytes(report: SignedReport, signer: str, seconds: int) -> bytes:
    """Return the bytes that are signed: netstrings (`length:bytes,`) one after the other.

    They are `moorage-report-v1`, the signer, the seconds in decimal digits, then the key, id, source, type and value of
    the report.

    Args:
        report: the report.
        signer: the id of the key.
        seconds: when it is signed.
    """
    texts = (signer, str(seconds), report.key, report.id, report.source, report.type)
    parts = (_VERSION, *(text.encode() for text in texts), report.value)
    return b"".join(b"%d:%s," % (len(part), part) for part in parts)
