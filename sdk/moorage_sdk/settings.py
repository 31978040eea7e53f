"""Where Moorage is, and as whom to speak to it: from the environment (`MOORAGE_…`) or from arguments.

The names are those that the services and the command line have, so one environment serves all.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Literal

from aiokafka.abc import AbstractTokenProvider
from faststream.security import BaseSecurity, SASLOAuthBearer, SASLPlaintext, SASLScram256, SASLScram512
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from moorage_sdk.errors import SdkError, SettingError, TransportError, rule_of
from moorage_sdk.tokens import ClientCredentials, TokenFile

_WITH_PASSWORD = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}


class Connection(BaseSettings):
    """Each field is set by the environment variable `MOORAGE_` + its name in upper case.

    Raises:
        SettingError: a setting is wrong.
    """

    model_config = SettingsConfigDict(env_prefix="MOORAGE_", extra="ignore", frozen=True, hide_input_in_errors=True)

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _invalid_setting(error) from None

    transport: Literal["auto", "http", "kafka"] = "auto"
    """`auto` speaks to Kafka if `bootstrap_servers` is set and `server` is not, otherwise to the gateway."""

    server: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """The gateway's address. Empty means `http://127.0.0.1:8080`."""

    token: SecretStr = SecretStr("")
    """The bearer token for the gateway. A file is better: it can be changed without a restart."""

    token_file: str = ""
    """A file with the token. It is read for each request."""

    ca_file: str = ""
    """A PEM file with the certificates that sign the gateway's. Empty means those that the system trusts."""

    client_cert_file: str = ""
    """A PEM file with this program's certificate for the gateway."""

    client_key_file: str = ""
    """A PEM file with the key of that certificate. Empty means that `client_cert_file` has it."""

    bootstrap_servers: str = ""
    """Kafka's addresses, separated by commas."""

    topic_prefix: str = "moorage"
    """The first part of all topic names."""

    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """The protocol of connections to Kafka: `SSL` is TLS, and `SASL_` adds a user."""

    kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = ""
    """How the user is authenticated."""

    kafka_username: str = ""
    """The user of `PLAIN` and `SCRAM-…`."""

    kafka_password: SecretStr = SecretStr("")
    """The user's password. A file is better."""

    kafka_password_file: str = ""
    """A file with the password. It is read at each start of a client."""

    kafka_ca_file: str = ""
    """A PEM file with the certificates that sign the brokers'. Empty means those that the system trusts."""

    kafka_cert_file: str = ""
    """A PEM file with this program's certificate for Kafka."""

    kafka_key_file: str = ""
    """A PEM file with the key of that certificate. Empty means that `kafka_cert_file` has it."""

    kafka_oauth_token_file: str = ""
    """A file with the token of `OAUTHBEARER`. It is read for each new connection."""

    kafka_oauth_token_endpoint: str = Field(
        default="", pattern=r"^(https://\S+|http://(127\.0\.0\.1|\[::1\]|localhost)(:\d+)?(/\S*)?)?$"
    )
    """Instead of that file: the address at which tokens are got by the grant `client_credentials`. `http` is accepted
    for loopback alone."""

    kafka_oauth_client_id: str = ""
    """The client id for that address."""

    kafka_oauth_client_secret_file: str = ""
    """A file with its secret. It is read for each token."""

    kafka_oauth_scope: str = ""
    """The scope of the tokens. Empty means the server's default."""

    kafka_oauth_ca_file: str = ""
    """A PEM file with the certificates that sign that server's. Empty means those that the system trusts."""

    report_key_file: str = ""
    """A PEM file with the private key (Ed25519, or ECDSA with P-256) that signs the reports that are written to Kafka.
    Its public key is in a `ProbeGrant` of the source."""

    report_key_id: str = ""
    """The id of that key in the `ProbeGrant`."""

    @field_validator(
        "token_file",
        "ca_file",
        "client_cert_file",
        "client_key_file",
        "kafka_password_file",
        "kafka_ca_file",
        "kafka_cert_file",
        "kafka_key_file",
        "kafka_oauth_token_file",
        "kafka_oauth_client_secret_file",
        "kafka_oauth_ca_file",
        "report_key_file",
    )
    @classmethod
    def _readable(cls, value: str) -> str:
        if value:
            try:
                with Path(value).open("rb"):
                    pass
            except OSError as error:
                raise ValueError(f"{value!r} must be a file that can be read: {error.strerror}") from None
        return value

    @model_validator(mode="after")
    def _has_whole_key(self) -> Connection:
        if bool(self.report_key_file) is not bool(self.report_key_id):
            raise ValueError("report_key_id: must be set exactly with report_key_file")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Connection:
        if self.token.get_secret_value() and self.token_file:
            raise ValueError("token_file: only one of it and token")
        if self.client_key_file and not self.client_cert_file:
            raise ValueError("client_key_file: only with client_cert_file")
        if self.transport == "kafka" and not self.bootstrap_servers:
            raise ValueError("bootstrap_servers: required with the transport kafka")
        has_user = self.kafka_security_protocol.startswith("SASL_")
        if has_user is not bool(self.kafka_sasl_mechanism):
            raise ValueError(
                f"kafka_sasl_mechanism: invalid value {self.kafka_sasl_mechanism!r}: must be set exactly with the "
                f"security protocols SASL_…, and the protocol is {self.kafka_security_protocol}"
            )
        if self.kafka_sasl_mechanism in _WITH_PASSWORD:
            if not self.kafka_username:
                raise ValueError(f"kafka_username: required with the mechanism {self.kafka_sasl_mechanism}")
            if bool(self.kafka_password.get_secret_value()) is bool(self.kafka_password_file):
                raise ValueError("kafka_password_file: exactly one of it and kafka_password")
        if self.kafka_sasl_mechanism == "PLAIN" and self.kafka_security_protocol != "SASL_SSL":
            raise ValueError("kafka_sasl_mechanism: PLAIN only with the security protocol SASL_SSL")
        return self

    @model_validator(mode="after")
    def _has_one_origin_of_tokens(self) -> Connection:
        is_oauth = self.kafka_sasl_mechanism == "OAUTHBEARER"
        if is_oauth and bool(self.kafka_oauth_token_file) is bool(self.kafka_oauth_token_endpoint):
            raise ValueError(
                "kafka_oauth_token_file: with the mechanism OAUTHBEARER exactly one of it and "
                "kafka_oauth_token_endpoint"
            )
        client = (self.kafka_oauth_client_id, self.kafka_oauth_client_secret_file)
        if self.kafka_oauth_token_endpoint and not all(client):
            raise ValueError(
                "kafka_oauth_client_id: required with kafka_oauth_token_endpoint, and so is "
                "kafka_oauth_client_secret_file"
            )
        if any(client) and not self.kafka_oauth_token_endpoint:
            raise ValueError("kafka_oauth_client_id: only with kafka_oauth_token_endpoint")
        return self

    @property
    def uses_kafka(self) -> bool:
        """Whether Kafka is spoken to, and not the gateway."""
        if self.transport == "auto":
            return bool(self.bootstrap_servers) and not self.server
        return self.transport == "kafka"

    @property
    def base_url(self) -> str:
        """The gateway's address."""
        return self.server.rstrip("/") or "http://127.0.0.1:8080"

    @property
    def is_anonymous(self) -> bool:
        """Whether it shows the gateway no identity."""
        return not (self.token.get_secret_value() or self.token_file or self.client_cert_file)

    def bearer(self) -> str:
        """The present token. Empty without one.

        Raises:
            TransportError: the file cannot be read, or is empty. It may be about to be replaced.
        """
        if not self.token_file:
            return self.token.get_secret_value()
        try:
            return _content("token_file", self.token_file)
        except SdkError as error:
            raise TransportError(str(error)) from None

    def tls(self) -> ssl.SSLContext | bool:
        """The TLS context with which httpx verifies the gateway."""
        if not self.ca_file and not self.client_cert_file:
            return True
        return _context(self.ca_file, self.client_cert_file, self.client_key_file)

    def kafka_security(self) -> BaseSecurity | None:
        """FastStream's security of the connections to Kafka. None without any.

        Raises:
            SdkError: a file cannot be read.
        """
        protocol, mechanism = self.kafka_security_protocol, self.kafka_sasl_mechanism
        if protocol == "PLAINTEXT":
            return None
        has_tls = protocol.endswith("SSL")
        context = _context(self.kafka_ca_file, self.kafka_cert_file, self.kafka_key_file) if has_tls else None
        if mechanism in _WITH_PASSWORD:
            file = self.kafka_password_file
            password = _content("kafka_password_file", file) if file else self.kafka_password.get_secret_value()
            return _WITH_PASSWORD[mechanism](self.kafka_username, password, ssl_context=context, use_ssl=has_tls)
        if mechanism == "OAUTHBEARER":
            return SASLOAuthBearer(ssl_context=context, use_ssl=has_tls)
        return BaseSecurity(ssl_context=context, use_ssl=has_tls)

    def kafka_tokens(self) -> AbstractTokenProvider | None:
        """The source of tokens for Kafka. None unless the mechanism is OAUTHBEARER."""
        if self.kafka_sasl_mechanism != "OAUTHBEARER":
            return None
        if self.kafka_oauth_token_file:
            return TokenFile(self.kafka_oauth_token_file)
        return ClientCredentials(
            self.kafka_oauth_token_endpoint,
            client_id=self.kafka_oauth_client_id,
            secret_file=self.kafka_oauth_client_secret_file,
            scope=self.kafka_oauth_scope,
            ca_file=self.kafka_oauth_ca_file,
        )


def _invalid_setting(error: ValidationError) -> SettingError:
    """Return the first problem, without the value if it may be secret."""
    found = error.errors(include_url=False)[0]
    rule = rule_of(found["msg"])
    if not found["loc"]:
        return SettingError(rule)
    field = str(found["loc"][0])
    kind = Connection.model_fields.get(field)
    is_secret = kind is None or kind.annotation is SecretStr
    shown = "" if is_secret else f"invalid value {found['input']!r}: "
    return SettingError(f"{field}: {shown}{rule}")


def _content(field: str, path: str) -> str:
    try:
        found = Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise SdkError(f"{field}: invalid value {path!r}: must be a file that can be read: {error.strerror}") from None
    if not found:
        raise SdkError(f"{field}: invalid value {path!r}: must not be empty")
    return found


def _context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        if cert_file:
            context.load_cert_chain(cert_file, key_file or None)
    except OSError as error:  # includes SSLError
        named = ", ".join(name for name in (ca_file, cert_file, key_file) if name)
        raise SdkError(f"{named}: must be PEM files, and the key that of the certificate: {error}") from None
    return context
