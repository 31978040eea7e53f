"""Settings of HTTP servers: addresses, and permitted callers.

The rules between the fields are checked in their order, so that each error names one field.
"""

from __future__ import annotations

import contextlib
from ipaddress import ip_address
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from moorage.decide.kubernetes.durations import seconds_of


def _seconds(value: object) -> object:
    """Return `40s`, `5m` or `1m30s` as seconds. Other values are left for pydantic to validate."""
    seconds = seconds_of(value.strip()) if isinstance(value, str) else None
    return value if seconds is None else seconds


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]
"""Seconds, or a duration in the form of Kubernetes' flags, such as `40s`."""


def names_in(text: str) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


SIGNING_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "ES256",
    "ES384",
    "ES512",
    "PS256",
    "PS384",
    "PS512",
    "EdDSA",
)
"""The algorithms by which a JWT may be signed: those whose verification key cannot sign."""

_AUTHENTICATION: Final = (
    "tls_cert_file",
    "tls_private_key_file",
    "client_ca_file",
    "token_auth_file",
    "oidc_issuer_url",
    "oidc_client_id",
    "oidc_jwks",
    "service_account_signing_key_file",
    "service_account_key_file",
)


class ServerSettings(BaseSettings):
    """The part of the settings that servers need."""

    http_host: str = "127.0.0.1"
    """The address on which health, metrics and the gateway listen."""

    # Permitted callers of the gateway. If a kube-apiserver has such a flag, the setting has its name.

    tls_cert_file: str = ""
    """A PEM file with the gateway's certificate, and those of its issuers. With it the gateway serves HTTPS only. It is
    read again when it changes."""

    tls_private_key_file: str = Field(default="", validate_default=True)
    """A PEM file with the key of that certificate."""

    client_ca_file: str = Field(default="", validate_default=True)
    """A PEM file with the authorities whose client certificates are accepted: the common name is the user, the
    organizations are its groups. Needs `tls_cert_file`."""

    gateway_ca_file: str = ""
    """A PEM file with the authorities of the other gateways' certificates. Empty means those of the system."""

    token_auth_file: str = ""
    """A CSV file of static tokens: `token,user,uid,"group1,group2"`. It is read again when it changes."""

    oidc_issuer_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """The issuer of the JWTs that are accepted, as in their claim `iss`."""

    oidc_client_id: str = Field(default="", validate_default=True)
    """The audience that these JWTs must have in their claim `aud`. Several are separated by commas."""

    oidc_jwks: str = ""
    """The file or URL of the issuer's keys (a JSON Web Key Set). Empty means the URL in the issuer's discovery
    document."""

    oidc_ca_file: str = ""
    """A PEM file with the authorities of the issuer's HTTPS. Empty means those of the system."""

    oidc_username_claim: str = Field(default="sub", min_length=1)
    """The claim with the user's name."""

    oidc_username_prefix: str = ""
    """The prefix of the user's name. Empty means the issuer and `#`, unless the claim is `email`. `-` means none."""

    oidc_groups_claim: str = ""
    """The claim with the user's groups. Empty means no groups."""

    oidc_groups_prefix: str = ""
    """The prefix of each group."""

    oidc_signing_algs: str = Field(default="RS256,ES256,EdDSA", pattern=r"^\s*\w+\s*(,\s*\w+\s*)*$")
    """The accepted signing algorithms of JWTs, separated by commas."""

    authentication_clock_skew: Seconds = 10.0
    """Seconds by which the clocks of an issuer of JWTs and of the gateway may differ."""

    service_account_signing_key_file: str = ""
    """A PEM file with the private key (ECDSA, RSA or Ed25519) that signs the tokens of service accounts. All gateways
    and the query worker share it, because they also authenticate each other with it. Without it no such tokens are
    issued."""

    service_account_key_file: str = ""
    """PEM files, separated by commas, with the public or private keys of tokens that are still valid. Empty means the
    signing key only."""

    service_account_issuer: str = Field(default="https://moorage.local", pattern=r"^[^\s,]+$")
    """The claim `iss` of the tokens of service accounts."""

    api_audiences: str = ""
    """The audiences, separated by commas, of which a service account's token must have one. Empty means the issuer."""

    service_account_max_token_expiration: Seconds = 0.0
    """The longest validity of a service account's token. 0 means 136 years."""

    anonymous_auth: bool = True
    """Whether requests without credentials are accepted as `system:anonymous`, with the permissions of its roles.
    Otherwise they are refused."""

    loopback_admin: bool | None = None
    """Whether requests without credentials are the administrator's. Only possible on a loopback address. Unset, it
    applies if no authentication is configured."""

    @field_validator("tls_private_key_file")
    @classmethod
    def _key_of_certificate(cls, value: str, info: ValidationInfo) -> str:
        return _together(value, info, "tls_cert_file")

    @field_validator("client_ca_file")
    @classmethod
    def _authorities_over_https(cls, value: str, info: ValidationInfo) -> str:
        if value and not info.data.get("tls_cert_file"):
            raise ValueError("client certificates need HTTPS, so MOORAGE_TLS_CERT_FILE must also be set")
        return value

    @field_validator("oidc_client_id")
    @classmethod
    def _audience_of_issuer(cls, value: str, info: ValidationInfo) -> str:
        return _together(value, info, "oidc_issuer_url")

    @field_validator("oidc_signing_algs")
    @classmethod
    def _asymmetric(cls, value: str) -> str:
        for name in names_in(value):
            if name not in SIGNING_ALGORITHMS:
                raise ValueError(f"{name!r} must be one of {', '.join(SIGNING_ALGORITHMS)}")
        return value

    @field_validator("loopback_admin")
    @classmethod
    def _admin_on_loopback(cls, value: bool | None, info: ValidationInfo) -> bool | None:  # noqa: FBT001 - as pydantic calls it
        host = str(info.data.get("http_host", ""))
        if value and not is_loopback(host):
            raise ValueError(f"with MOORAGE_HTTP_HOST={host} other machines would also be the administrator")
        return value

    def for_own_process(self) -> Self:
        """Return these settings for a gateway inside its own process: every caller may do everything."""
        fields = type(self).model_fields
        plain = {name: fields[name].default for name in _AUTHENTICATION}
        return self.model_copy(update={**plain, "http_host": "127.0.0.1", "loopback_admin": True})

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        return is_loopback(self.http_host)

    @property
    def authenticates(self) -> bool:
        """Whether a setting states how callers of the gateway prove their identity."""
        return bool(self.client_ca_file or self.token_auth_file or self.oidc_issuer_url)


def _together(value: str, info: ValidationInfo, other: str) -> str:
    if bool(value) is not bool(info.data.get(other, value)):
        raise ValueError(f"MOORAGE_{other.upper()} must be set if and only if this is")
    return value


def is_loopback(host: str) -> bool:
    """Return whether an address is reached only from this machine."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return False
