"""Credentials of a command for the gateway: tokens, certificates, and the user to act for."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moorage.cli.errors import CliError
from moorage.runtime.settings import environment

if TYPE_CHECKING:
    import ssl

TOKEN: Final = "MOORAGE_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE: Final = "MOORAGE_TOKEN_FILE"  # noqa: S105 - as above
CA_FILE: Final = "MOORAGE_CA_FILE"
CERT_FILE: Final = "MOORAGE_CLIENT_CERT_FILE"
KEY_FILE: Final = "MOORAGE_CLIENT_KEY_FILE"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials for one gateway."""

    token: str = field(default="", repr=False)
    ca_data: str = ""
    """The authorities of the gateway's certificate as PEM. Empty means those of the system."""

    cert_file: str = ""
    """The client's certificate."""

    key_file: str = field(default="", repr=False)
    """Its key. Empty means that it is in the file of the certificate."""

    insecure: bool = False
    """Whether the gateway's certificate is not checked."""

    user: str = ""
    """The user to act for. Empty for the sender itself."""

    groups: tuple[str, ...] = ()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers of each request."""
        found = [("authorization", f"Bearer {self.token}")] if self.token else []
        found += [("impersonate-user", self.user)] if self.user else []
        return found + [("impersonate-group", group) for group in self.groups]

    def tls(self) -> ssl.SSLContext:
        """Return what a connection by HTTPS trusts and shows.

        Raises:
            CliError: a certificate or a key cannot be used.
        """
        import ssl  # noqa: PLC0415 - it loads slowly, and most gateways are asked by HTTP

        try:
            context = ssl.create_default_context(cadata=self.ca_data or None)
        except ssl.SSLError as error:
            raise CliError(f"the authorities of the gateway's certificate cannot be read: {error.reason}") from None
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file:
            try:
                context.load_cert_chain(self.cert_file, self.key_file or None)
            except (ssl.SSLError, OSError) as error:
                why = getattr(error, "reason", None) or error.strerror or error
                raise CliError(f"{self.cert_file}: the client certificate or its key cannot be used: {why}") from None
        return context


NONE: Final = Credentials()


def of_environment(options: Mapping[str, Any]) -> Credentials:
    """Return what the options of a command and the environment name. Raises CliError if a file cannot be read."""

    def named(option: str, variable: str) -> str:
        return str(options.get(option) or "") or os.environ.get(variable, "")

    token = named("token", TOKEN)
    if not token and (file := os.environ.get(TOKEN_FILE, "")):
        token = text_of(file)
    authorities = named("certificate_authority", CA_FILE)
    return Credentials(
        token,
        text_of(authorities) if authorities else "",
        named("client_certificate", CERT_FILE),
        named("client_key", KEY_FILE),
        bool(options.get("insecure_skip_tls_verify")),
        str(options.get("as_user") or ""),
        tuple(options.get("as_group") or ()),
    )


def token_file() -> str:
    """Return the file with the token that the environment names. Empty if it holds the token itself, or nothing."""
    return "" if os.environ.get(TOKEN, "") else os.environ.get(TOKEN_FILE, "")


def text_of(file: str | Path) -> str:
    """Return the text of a file without the white space around it. Raises CliError if it cannot be read."""
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def of_entry(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> Credentials:
    """Return what a cluster and a user of a kubeconfig name. Its relative paths begin from its folder.

    Raises:
        CliError: a file or data cannot be read.
    """
    token = str(user.get("token") or "")
    if not token and (file := user.get("tokenFile")):
        token = text_of(folder / str(file))
    authorities = _data(cluster, "certificate-authority")
    if not authorities and (file := cluster.get("certificate-authority")):
        authorities = text_of(folder / str(file))
    return Credentials(
        token,
        authorities,
        _file(user, "client-certificate", folder),
        _file(user, "client-key", folder),
        bool(cluster.get("insecure-skip-tls-verify")),
        str(user.get("as") or ""),
        tuple(map(str, user.get("as-groups") or ())),
    )


def _data(entry: Mapping[str, Any], name: str) -> str:
    try:
        return base64.b64decode(str(entry.get(f"{name}-data") or ""), validate=True).decode()
    except ValueError:
        raise CliError(f"the kubeconfig's {name}-data is not base64 of a PEM file") from None


def _file(entry: Mapping[str, Any], name: str, folder: Path) -> str:
    """Return the path of a PEM file. Data in the kubeconfig is written to the state folder, as TLS reads files only."""
    if content := _data(entry, name):
        import hashlib  # noqa: PLC0415 - few kubeconfigs need it

        from moorage.runtime.process.shared_files import write_whole  # noqa: PLC0415 - as above

        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        kept = environment.state_folder() / "client-certificates"
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = kept / f"{digest}.pem"
        if not file.exists():
            write_whole(file, content.encode(), mode=0o600)
        return str(file)
    return str(folder / str(entry[name])) if entry.get(name) else ""


def first_of(*found: Credentials) -> Credentials:
    """Return the first credentials that have a token or a certificate. They are never mixed."""
    who = next((one for one in found if one.token or one.cert_file), NONE)
    authorities = next((one.ca_data for one in found if one.ca_data), "")
    acting: Sequence[Credentials] = [one for one in found if one.user or one.groups]
    behalf = acting[0] if acting else NONE
    return Credentials(
        who.token,
        authorities,
        who.cert_file,
        who.key_file,
        any(one.insecure for one in found),
        behalf.user,
        behalf.groups,
    )
