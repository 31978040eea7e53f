"""TLS contexts that read their certificates and keys again when the files have changed."""

from __future__ import annotations

import ssl
from typing import Any, Self

import structlog

from moorage.runtime.kafka.clients.passwords import read_secret
from moorage.runtime.process.shared_files import Stamp, stamp_of

log = structlog.get_logger(__name__)


class RenewedContext(ssl.SSLContext):
    """A context of a client. Each connection uses the certificates that the files hold when it is opened.

    If a file cannot be read then, or does not fit the others, the last ones that did are used: whoever replaces a
    certificate and its key replaces one after the other.
    """

    _files: tuple[str, str, str, str]
    _stamp: Stamp
    _current: ssl.SSLContext

    @classmethod
    def reading(cls, ca_file: str, cert_file: str, key_file: str, key_password_file: str = "") -> Self:
        """Return a context of these files.

        Args:
            ca_file: the certificates that sign the brokers'. Empty for those that the system trusts.
            cert_file: the client's certificate. Empty for none.
            key_file: its key. Empty if `cert_file` has it.
            key_password_file: the password of the key. Empty if it is not encrypted.

        Raises:
            OSError: a file cannot be read.
            ssl.SSLError: a file does not hold what it should, or they do not belong together.
        """
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context._files = (ca_file, cert_file, key_file, key_password_file)
        context._stamp = stamp_of(context._files)
        context._current = _read(*context._files)
        return context

    # asyncio and uvloop call only this for a connection.
    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a connection."""
        self._renew()
        return self._current.wrap_bio(*args, **kwargs)

    def _renew(self) -> None:
        try:
            stamp = stamp_of(self._files)
            if stamp != self._stamp:
                self._current = _read(*self._files)
                self._stamp = stamp
                log.info("kafka.certificates_renewed", files=[file for file in self._files if file])
        except OSError as error:  # an SSLError is one, too
            log.warning(
                "kafka.certificates_not_renewed", error=str(error), files=[file for file in self._files if file]
            )


def _read(ca_file: str, cert_file: str, key_file: str, key_password_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca_file or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file:
        # Without a password here, OpenSSL would ask for that of an encrypted key on the terminal, and wait.
        password = read_secret(key_password_file) if key_password_file else ""
        context.load_cert_chain(cert_file, key_file or None, password=password)
    return context


def names_in(cert_file: str) -> str:
    """Return the subject of a certificate as Kafka's ACLs name it, such as `CN=moorage-timer,O=Example`.

    Kafka may be set to shorten it (`ssl.principal.mapping.rules`).
    """
    try:
        # The standard library reads certificates of peers, and any file with this function, which its own tests use.
        found = ssl._ssl._test_decode_cert(cert_file)  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    except (OSError, AttributeError):
        return f"the subject of {cert_file}"
    parts = [f"{_SHORT.get(name, name)}={value}" for entry in found["subject"] for name, value in entry]
    return ",".join(reversed(parts))


_SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
}
