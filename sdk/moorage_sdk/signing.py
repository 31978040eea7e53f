"""Signs the reports that are written to Kafka, so that they count for a `ProbeGrant` that has the key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from moorage_schemas.signing import SIGNATURE_HEADER, Signature, SignedReport, signed_bytes
from moorage_sdk.errors import SdkError
from moorage_sdk.settings import Connection

_HALF: Final = 32  # bytes of each of the two numbers of an ES256 signature


class ReportSigner:
    """Signs reports with the key of a file.

    Args:
        key_file: the private key in PEM.
        key_id: its id in the `ProbeGrant`.

    Raises:
        SdkError: the file cannot be read, or has no such key.
    """

    def __init__(self, key_file: str, key_id: str) -> None:
        self._key_id = key_id
        self._sign = _signing(key_file)

    def header(self, report: SignedReport) -> tuple[str, bytes]:
        """Return the header that signs a report now."""
        seconds = int(datetime.now(UTC).timestamp())
        signature = self._sign(signed_bytes(report, self._key_id, seconds))
        return SIGNATURE_HEADER, Signature(self._key_id, seconds, signature).header()


def signer_of(connection: Connection) -> ReportSigner | None:
    """Return the signer of a connection. None if it has no key.

    Raises:
        SdkError: as `ReportSigner`.
    """
    return ReportSigner(connection.report_key_file, connection.report_key_id) if connection.report_key_file else None


def _signing(key_file: str) -> Callable[[bytes], bytes]:
    rule = "must be a private key in PEM without a password: Ed25519, or ECDSA with P-256"
    try:
        key = load_pem_private_key(Path(key_file).read_bytes(), None)
    except OSError as error:
        raise SdkError(f"report_key_file: invalid value {key_file!r}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SdkError(f"report_key_file: invalid value {key_file!r}: {rule}") from None
    if isinstance(key, Ed25519PrivateKey):
        return key.sign
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise SdkError(f"report_key_file: invalid value {key_file!r}: {rule}")
    own = key

    def sign(text: bytes) -> bytes:
        numbers = utils.decode_dss_signature(own.sign(text, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(_HALF) for number in numbers)

    return sign
