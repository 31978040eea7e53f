"""Settings of the connections to Kafka: its address, and the identity of the process.

The rules between the fields are checked in their order, so that each error names one field.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

_SAFE_ADDRESS: Final = re.compile(r"https://\S+$|http://(127\.0\.0\.1|\[::1\]|localhost)([:/]\S*)?$")
_AS_IT_IS: Final = {"PLAIN": "password", "OAUTHBEARER": "token"}
_OF_CLIENT: Final = ("kafka_oauth_client_id", "kafka_oauth_client_secret_file")
_OF_CERTIFICATE: Final = ("kafka_key_file", "kafka_key_password_file")
_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class KafkaSettings(BaseSettings):
    """The part of the settings that every client of Kafka needs."""

    bootstrap_servers: str = ""
    """Kafka's addresses, separated by commas. Empty means the embedded broker."""

    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """The protocol of connections to Kafka: `SSL` is TLS, and `SASL_` adds a user."""

    kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="", validate_default=True
    )
    """The authentication mechanism. `PLAIN` and `OAUTHBEARER` are accepted only with `SASL_SSL`, or on loopback."""

    kafka_username: str = Field(default="", validate_default=True)
    """The user of `PLAIN` and `SCRAM-…`."""

    kafka_password: SecretStr = SecretStr("")
    """The user's password. A file is better: it can be changed without a restart."""

    kafka_password_file: str = Field(default="", validate_default=True)
    """A file with the password. It is read for each new connection."""

    kafka_ca_file: str = ""
    """A PEM file with the certificates that sign the brokers'. Empty means those that the system trusts."""

    kafka_cert_file: str = ""
    """A PEM file with this process's certificate and its chain, for brokers that require one. It is read again when it
    changes."""

    kafka_key_file: str = Field(default="", validate_default=True)
    """A PEM file with the key of that certificate. Empty means that `MOORAGE_KAFKA_CERT_FILE` has it."""

    kafka_key_password_file: str = Field(default="", validate_default=True)
    """A file with the password of that key. Empty means that the key is not encrypted."""

    kafka_oauth_token_file: str = ""
    """A file with the token of `OAUTHBEARER`. It is read for each new connection."""

    kafka_oauth_token_endpoint: str = Field(default="", validate_default=True)
    """The address at which `OAUTHBEARER` gets tokens by client credentials. Tokens are renewed before they expire."""

    kafka_oauth_client_id: str = Field(default="", validate_default=True)
    """The client id for that address."""

    kafka_oauth_client_secret_file: str = Field(default="", validate_default=True)
    """A file with the client's secret. It is read for each token."""

    kafka_oauth_scope: str = ""
    """The scope of the tokens, if the server requires one."""

    kafka_oauth_ca_file: str = ""
    """A PEM file with the certificates that sign the server's. Empty means those that the system trusts."""

    @field_validator("kafka_sasl_mechanism")
    @classmethod
    def _fitting_mechanism(cls, value: str, info: ValidationInfo) -> str:
        protocol = info.data.get("kafka_security_protocol", "")
        if protocol.startswith("SASL_") and not value:
            raise ValueError(f"required with the security protocol {protocol}")
        if value and protocol and not protocol.startswith("SASL_"):
            raise ValueError(f"only with the security protocols SASL_SSL and SASL_PLAINTEXT, not {protocol}")
        if (
            value in _AS_IT_IS
            and protocol == "SASL_PLAINTEXT"
            and not are_on_loopback(info.data.get("bootstrap_servers", ""))
        ):
            raise ValueError(
                f"only with the security protocol SASL_SSL, because it sends the {_AS_IT_IS[value]} as it is; "
                "SASL_PLAINTEXT is accepted only for 127.0.0.1, [::1] and localhost"
            )
        return value

    @field_validator("kafka_username")
    @classmethod
    def _fitting_user(cls, value: str, info: ValidationInfo) -> str:
        mechanism = info.data.get("kafka_sasl_mechanism")
        if mechanism in _WITH_PASSWORD and not value:
            raise ValueError(f"required with the mechanism {mechanism}")
        return _only_with_password(value, mechanism)

    @field_validator("kafka_password")
    @classmethod
    def _fitting_password(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        _only_with_password(value.get_secret_value(), info.data.get("kafka_sasl_mechanism"))
        return value

    @field_validator("kafka_password_file")
    @classmethod
    def _one_password(cls, value: str, info: ValidationInfo) -> str:
        mechanism, password = info.data.get("kafka_sasl_mechanism"), info.data.get("kafka_password")
        if password is not None:
            if value and password.get_secret_value():
                raise ValueError("only one of it and MOORAGE_KAFKA_PASSWORD")
            if mechanism in _WITH_PASSWORD and not value and not password.get_secret_value():
                raise ValueError(f"required with the mechanism {mechanism}, unless MOORAGE_KAFKA_PASSWORD is set")
        return _file(_only_with_password(value, mechanism))

    @field_validator("kafka_ca_file", "kafka_cert_file", "kafka_key_file", "kafka_key_password_file")
    @classmethod
    def _fitting_certificate(cls, value: str, info: ValidationInfo) -> str:
        protocol = info.data.get("kafka_security_protocol", "")
        if value and protocol and not protocol.endswith("SSL"):
            raise ValueError(f"only with the security protocols SSL and SASL_SSL, not {protocol}")
        if value and info.field_name in _OF_CERTIFICATE and info.data.get("kafka_cert_file") == "":
            raise ValueError("only with MOORAGE_KAFKA_CERT_FILE")
        return _file(value)

    @field_validator("kafka_oauth_token_file")
    @classmethod
    def _fitting_token(cls, value: str, info: ValidationInfo) -> str:
        _only_oauth(value, info)
        return _file(value)

    @field_validator("kafka_oauth_token_endpoint")
    @classmethod
    def _one_token(cls, value: str, info: ValidationInfo) -> str:
        mechanism, file = info.data.get("kafka_sasl_mechanism"), info.data.get("kafka_oauth_token_file")
        _only_oauth(value, info)
        if value and file:
            raise ValueError("only one of it and MOORAGE_KAFKA_OAUTH_TOKEN_FILE")
        if mechanism == "OAUTHBEARER" and file == "" and not value:
            raise ValueError("required with the mechanism OAUTHBEARER, unless MOORAGE_KAFKA_OAUTH_TOKEN_FILE is set")
        if value and not _SAFE_ADDRESS.match(value):
            raise ValueError("must begin with https://; http:// is accepted only for 127.0.0.1, [::1] and localhost")
        return value

    @field_validator(
        "kafka_oauth_client_id", "kafka_oauth_client_secret_file", "kafka_oauth_scope", "kafka_oauth_ca_file"
    )
    @classmethod
    def _fitting_client(cls, value: str, info: ValidationInfo) -> str:
        endpoint = info.data.get("kafka_oauth_token_endpoint")
        if value and endpoint == "":
            raise ValueError("only with MOORAGE_KAFKA_OAUTH_TOKEN_ENDPOINT")
        if info.field_name in _OF_CLIENT and not value and endpoint:
            raise ValueError("required with MOORAGE_KAFKA_OAUTH_TOKEN_ENDPOINT")
        return _file(value) if str(info.field_name).endswith("_file") else value

    @classmethod
    def secrets(cls) -> frozenset[str]:
        """Return the fields whose values are never shown."""
        return frozenset(name for name, field in cls.model_fields.items() if field.annotation is SecretStr)


def _only_with_password(value: str, mechanism: str | None) -> str:
    """Check that a field of a user with a password is set only where there is one."""
    if value and mechanism is not None and mechanism not in _WITH_PASSWORD:
        raise ValueError(f"only with the mechanisms {', '.join(_WITH_PASSWORD)}")
    return value


def are_on_loopback(servers: str) -> bool:
    """Return whether all addresses are on the loopback interface."""
    hosts = [address.strip().rpartition(":")[0] for address in servers.split(",") if address.strip()]
    return bool(hosts) and set(hosts) <= {"127.0.0.1", "[::1]", "localhost"}


def _only_oauth(value: str, info: ValidationInfo) -> None:
    if value and info.data.get("kafka_sasl_mechanism") not in {None, "OAUTHBEARER"}:
        raise ValueError("only with the mechanism OAUTHBEARER")


def _file(value: str) -> str:
    """Check that a named file can be read now."""
    if value:
        try:
            with Path(value).open("rb"):
                pass
        except OSError as error:
            raise ValueError(f"must be a file that can be read: {error.strerror}") from None
    return value
