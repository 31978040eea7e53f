"""The proof of identity that a client gives to Kafka, from the settings.

New connections use the present passwords, tokens and certificates on disk. An open connection keeps its own: Kafka
checks them only when it is opened. When the broker closes connections after a while (`connections.max.reauth.ms`),
aiokafka 0.14 opens new ones, because it cannot authenticate anew on an open connection.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import structlog
from pydantic import SecretStr
from typing_extensions import override

from moorage.runtime.kafka.clients.passwords import Password, read_secret
from moorage.runtime.kafka.clients.tokens import ClientCredentials, TokenFile
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.process.shared_files import Stamp, stamp_of
from moorage.runtime.settings.process_settings import Settings

log = structlog.get_logger(__name__)


class RenewedContext(ssl.SSLContext):
    """A context of a client. Each connection uses the certificates that the files hold when it is opened.

    If a file cannot be read then, or does not fit the others, the last fitting ones are used. A certificate and its key
    are replaced one after the other.
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
            ssl.SSLError: a file has the wrong content, or they do not belong together.
        """
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context._files = (ca_file, cert_file, key_file, key_password_file)
        context._stamp = stamp_of(context._files)
        context._current = _read(*context._files)
        return context

    # asyncio and uvloop call only this for a connection.
    @override
    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        self._renew()
        return self._current.wrap_bio(*args, **kwargs)

    def _renew(self) -> None:
        try:
            stamp = stamp_of(self._files)
            if stamp != self._stamp:
                self._current = _read(*self._files)
                self._stamp = stamp
                log.info("kafka.certificates_renewed", files=[file for file in self._files if file])
        except OSError as error:  # includes SSLError
            log.warning(
                "kafka.certificates_not_renewed", error=str(error), files=[file for file in self._files if file]
            )


def _read(ca_file: str, cert_file: str, key_file: str, key_password_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca_file or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file:
        # Without a password here, OpenSSL would prompt for that of an encrypted key on the terminal, and wait.
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


@dataclass(frozen=True, slots=True)
class _Identity:
    """The settings that matter here. Clients with the same ones share certificates and tokens."""

    protocol: str
    mechanism: str
    username: str
    password: SecretStr
    password_file: str
    ca_file: str
    cert_file: str
    key_file: str
    key_password_file: str
    token_file: str
    token_endpoint: str
    client_id: str
    client_secret_file: str
    scope: str
    token_ca_file: str

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            protocol=settings.kafka_security_protocol,
            mechanism=settings.kafka_sasl_mechanism,
            username=settings.kafka_username,
            password=settings.kafka_password,
            password_file=settings.kafka_password_file,
            ca_file=settings.kafka_ca_file,
            cert_file=settings.kafka_cert_file,
            key_file=settings.kafka_key_file,
            key_password_file=settings.kafka_key_password_file,
            token_file=settings.kafka_oauth_token_file,
            token_endpoint=settings.kafka_oauth_token_endpoint,
            client_id=settings.kafka_oauth_client_id,
            client_secret_file=settings.kafka_oauth_client_secret_file,
            scope=settings.kafka_oauth_scope,
            token_ca_file=settings.kafka_oauth_ca_file,
        )


def security(settings: Settings) -> dict[str, Any]:
    """Return the arguments of aiokafka's clients for the connection and its identity.

    Raises:
        RuntimeFailure: a certificate or a key cannot be read, or they do not belong together.
    """
    return dict(_arguments(_Identity.of(settings)))


def principal(settings: Settings) -> str:
    """Return the name of this process in Kafka's ACLs, as far as the settings contain it, such as `User:probe`."""
    identity = _Identity.of(settings)
    if identity.username:
        return f"User:{identity.username}"
    if identity.mechanism == "OAUTHBEARER":
        return f"User:{identity.client_id}" if identity.client_id else "the subject of its token"
    if identity.cert_file:
        return f"User:{names_in(identity.cert_file)}"
    return "User:ANONYMOUS"


@lru_cache(maxsize=64)
def _arguments(identity: _Identity) -> dict[str, Any]:
    found: dict[str, Any] = {"security_protocol": identity.protocol}
    if identity.protocol.endswith("SSL"):
        found["ssl_context"] = _context(identity)
    if identity.mechanism == "OAUTHBEARER":
        found |= {"sasl_mechanism": identity.mechanism, "sasl_oauth_token_provider": _tokens(identity)}
    elif identity.mechanism:
        found |= {
            "sasl_mechanism": identity.mechanism,
            "sasl_plain_username": identity.username,
            "sasl_plain_password": Password(identity.password, identity.password_file),
        }
    return found


def _context(identity: _Identity) -> ssl.SSLContext:
    try:
        return RenewedContext.reading(
            identity.ca_file, identity.cert_file, identity.key_file, identity.key_password_file
        )
    except OSError as error:  # includes SSLError
        files = {
            "ca": identity.ca_file,
            "cert": identity.cert_file,
            "key": identity.key_file,
            "key_password": identity.key_password_file,
        }
        named = ", ".join(f"kafka_{name}_file: invalid value {file!r}" for name, file in files.items() if file)
        raise RuntimeFailure(
            f"{named}: must be PEM files, the key that of the certificate, and the password that of the key: {error}"
        ) from None


def _tokens(identity: _Identity) -> TokenFile | ClientCredentials:
    if identity.token_file:
        return TokenFile(identity.token_file)
    return ClientCredentials(
        identity.token_endpoint,
        client_id=identity.client_id,
        secret_file=identity.client_secret_file,
        scope=identity.scope,
        ca_file=identity.token_ca_file,
    )
