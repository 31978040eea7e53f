"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)


def _name(common: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"), x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


@dataclass(frozen=True)
class Authority:
    """Signs certificates, and writes them and their keys as PEM files into a folder."""

    folder: Path
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        now = dt.datetime.now(dt.UTC)
        found = (
            x509.CertificateBuilder()
            .subject_name(_name("authority"))
            .issuer_name(_name("authority"))
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        self.certificate.write_bytes(found.public_bytes(serialization.Encoding.PEM))

    @property
    def certificate(self) -> Path:
        """The authority's own certificate."""
        return self.folder / "ca.pem"

    def sign(self, common: str, *, expired: bool = False, name: str = "", password: str = "") -> tuple[Path, Path]:
        """Write a certificate for 127.0.0.1 and its key. Return both files, which are replaced if they exist.

        Args:
            common: the common name of the subject.
            expired: whether it was valid only until a moment ago.
            name: the name of the files, if it is not the common name.
            password: encrypts the key. Empty if it is not encrypted.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        found = (
            x509.CertificateBuilder()
            .subject_name(_name(common))
            .issuer_name(_name("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now - dt.timedelta(minutes=1) if expired else now + _DAY)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        files = self.folder / f"{name or common}.pem", self.folder / f"{name or common}.key"
        files[0].write_bytes(found.public_bytes(serialization.Encoding.PEM))
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            encryption = serialization.BestAvailableEncryption(password.encode())
        files[1].write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return files


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
