"""Certificates for the servers of this machine, signed by an authority that is made here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.runtime.process.shared_files import write_whole

AUTHORITY_LASTS: Final = timedelta(days=3_650)
CERTIFICATE_LASTS: Final = timedelta(days=397)
"""The longest time that all clients accept."""

RENEWED_BEFORE: Final = timedelta(days=90)
"""How long before its end a certificate is replaced."""

_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_EARLIER: Final = timedelta(minutes=5)  # for clocks that are behind


class LocalAuthority:
    """An authority in a folder, which signs a certificate for the names of this machine.

    Args:
        folder: the folder of all its files.
        names: names and addresses in addition to those of the loopback interface.
    """

    def __init__(self, folder: Path, names: Sequence[str] = ()) -> None:
        self._names = [_alternative(one) for one in (*_NAMES, *names)]
        self.certificate = folder / "ca.crt"
        """The certificate that clients trust."""

        self._key = folder / "ca.key"
        self.server_certificate = folder / "server.crt"
        self.server_key = folder / "server.key"

    def ensure(self, now: datetime | None = None) -> None:
        """Create the missing files, and replace certificates that expire soon.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: a file is no certificate or key.
        """
        now = now or datetime.now(UTC)
        if not self._key.exists() or _ends(self.certificate) - now < RENEWED_BEFORE:
            self._make_authority(now)
            self._sign(now)
        elif self._must_sign(now):
            self._sign(now)

    def _must_sign(self, now: datetime) -> bool:
        if not self.server_key.exists() or _ends(self.server_certificate) - now < RENEWED_BEFORE:
            return True
        present = x509.load_pem_x509_certificate(self.server_certificate.read_bytes())
        found = present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return not set(self._names) <= set(found)

    def _make_authority(self, now: datetime) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Moorage on this machine")
        made = (
            _builder(name, name, key.public_key(), now, AUTHORITY_LASTS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        write_whole(self._key, _pem(key), mode=0o600)
        write_whole(self.certificate, made.public_bytes(serialization.Encoding.PEM))

    def _sign(self, now: datetime) -> None:
        authority = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        signer: Any = serialization.load_pem_private_key(self._key.read_bytes(), password=None)
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _builder(_name("moorage"), authority.subject, key.public_key(), now, CERTIFICATE_LASTS)
            .add_extension(x509.SubjectAlternativeName(self._names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)  # type: ignore[arg-type]  # the authority's is one of those
            .sign(signer, hashes.SHA256())
        )
        # A server that reads the key of one and the certificate of the other keeps its present ones, and reads again.
        write_whole(self.server_key, _pem(key), mode=0o600)
        write_whole(self.server_certificate, made.public_bytes(serialization.Encoding.PEM))


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _ends(file: Path) -> datetime:
    """Return when a certificate ends; a time long ago without one."""
    if not file.exists():
        return datetime.min.replace(tzinfo=UTC)
    return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
