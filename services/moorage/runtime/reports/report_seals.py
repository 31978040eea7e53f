"""The gateway's seal on a report: proof that the gateway has accepted the report, and for whom.

It is an HMAC with a key that is derived from the service accounts' signing key. The gateways and condition-ingest have
that key by the same setting. The bytes are those of `moorage_schemas.signing`.
"""

from __future__ import annotations

import hmac
from enum import StrEnum

from moorage.runtime.identities.gateway_identities import derived_key
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.signing import Signature, SignedReport, signed_bytes


class Sealed(StrEnum):
    """The content of a seal."""

    GRANTED = "granted"
    """A grant permits the report's user to use its source."""

    ANY = "any"
    """The user may report anything."""


class Seals:
    """Makes and checks seals.

    Args:
        key_file: the service accounts' signing key.

    Raises:
        OSError: the file cannot be read.
    """

    def __init__(self, key_file: str) -> None:
        self._key = derived_key(key_file, b"moorage report seals")

    def seal(self, report: SignedReport, sealed: Sealed, seconds: int) -> Signature:
        """Return the seal of a report.

        Args:
            report: the report.
            sealed: the content of the seal.
            seconds: the present time, in seconds since 1970.
        """
        text = signed_bytes(report, sealed.value, seconds)
        return Signature(sealed.value, seconds, hmac.digest(self._key, text, "sha256"))

    def read(self, report: SignedReport, found: Signature) -> Sealed | None:
        """Return the content of a seal. None if no gateway has made it for this report."""
        wanted = hmac.digest(self._key, signed_bytes(report, found.signer, found.seconds), "sha256")
        if not hmac.compare_digest(wanted, found.signature):
            return None
        return Sealed(found.signer)


def seals_of(settings: Settings) -> Seals | None:
    """Return the seals by the settings; None without a signing key. Raises RuntimeFailure if its file is unreadable."""
    name = settings.service_account_signing_key_file
    if not name:
        return None
    try:
        return Seals(name)
    except OSError as error:
        raise RuntimeFailure(
            f"MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE: invalid value {name!r}: must be a file that can be read: "
            f"{error.strerror}"
        ) from None
