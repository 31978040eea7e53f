"""HTTPS, and the users whom client certificates name."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from moorage.apiserver.authentication.account_tokens import CREDENTIAL_ID
from moorage.decide.kubernetes.attributes import User
from moorage.runtime.process.shared_files import stamp_of
from moorage.runtime.settings.process_settings import Settings

_log = structlog.get_logger(__name__)

EXTENSION: Final = "moorage.client_certificate"
"""The extension of an ASGI scope with the client's certificate, if it has shown one that counts."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client's certificate that an accepted authority has signed."""

    common_name: str
    organizations: tuple[str, ...]
    fingerprint: str

    @property
    def user(self) -> User:
        """The user whom it names, as Kubernetes reads certificates."""
        return User(self.common_name, self.organizations, extra={CREDENTIAL_ID: (f"X509SHA256={self.fingerprint}",)})


def client_certificate(connection: Any) -> ClientCertificate | None:
    """Return the certificate that the client of a TLS connection has shown. None without TLS, and without any."""
    found: Mapping[str, Any] = (connection.getpeercert() or {}) if connection is not None else {}
    if not found:
        return None
    parts = [pair for relative in found.get("subject", ()) for pair in relative]
    name = next((value for key, value in parts if key == "commonName"), "")
    organizations = tuple(value for key, value in parts if key == "organizationName")
    digest = hashlib.sha256(connection.getpeercert(binary_form=True)).hexdigest()
    return ClientCertificate(name, organizations, digest)


class ServerTls:
    """The TLS context of a server. Its certificates are read again when their files change, for new connections.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file has no certificate, or no key that fits it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files = (settings.tls_cert_file, settings.tls_private_key_file, settings.client_ca_file)
        self._seen = stamp_of(self._files)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load()

    def _load(self) -> None:
        settings, context = self._settings, self.context
        try:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_private_key_file)
        except ssl.SSLError as error:
            raise ValueError(
                f"MOORAGE_TLS_CERT_FILE: invalid value {settings.tls_cert_file!r}: must be a PEM file with a "
                f"certificate to which the key in {settings.tls_private_key_file!r} belongs: {error.reason or error}"
            ) from None
        if settings.client_ca_file:
            try:
                context.load_verify_locations(settings.client_ca_file)
            except ssl.SSLError as error:
                raise ValueError(
                    f"MOORAGE_CLIENT_CA_FILE: invalid value {settings.client_ca_file!r}: must be a PEM file with "
                    f"certificates of authorities: {error.reason or error}"
                ) from None
            # A client without a certificate may have a token.
            context.verify_mode = ssl.CERT_OPTIONAL

    def refresh(self) -> None:
        """Read the files again if they have changed. What cannot be read leaves everything as it is."""
        try:
            stamp = stamp_of(self._files)
            if stamp == self._seen:
                return
            self._load()
            self._seen = stamp
        except (OSError, ValueError) as error:
            _log.warning("tls.not_renewed", problem=str(error))
        else:
            _log.info("tls.renewed", certificate=self._settings.tls_cert_file)
