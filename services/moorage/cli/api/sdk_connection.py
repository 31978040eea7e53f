"""The connection of a program on the SDK: the gateway that other commands use, or Kafka if only that is named."""

from __future__ import annotations

import hashlib

import typer
from pydantic import SecretStr

from moorage.cli.api import credentials, endpoints
from moorage.cli.errors import UsageError
from moorage.runtime.process.shared_files import write_whole
from moorage.runtime.settings import environment
from moorage_sdk import Connection, SdkError


def sdk_connection(ctx: typer.Context) -> Connection:
    """Return the connection.

    Kafka is used if MOORAGE_BOOTSTRAP_SERVERS is set and no gateway is named, as by any program on the SDK.

    Raises:
        UsageError: a setting is wrong.
        CliError: a file with credentials cannot be read.
    """
    try:
        is_named = bool(ctx.find_root().params.get("server") or ctx.find_root().params.get("context"))
        own = Connection()
        if own.uses_kafka and not is_named:
            return own
        found = endpoints.server(ctx)
        known = found.credentials()
        if known.insecure or known.user or known.groups:
            raise UsageError(
                "a probe uses neither --insecure-skip-tls-verify nor --as: expected credentials of its own"
            )
        given = {"server": found.address, "client_cert_file": known.cert_file, "client_key_file": known.key_file}
        if file := credentials.token_file():
            given["token_file"] = file  # so that a token that is renewed there is used
        return Connection(
            transport="http",
            ca_file=own.ca_file or _ca_file(known.ca_data),
            **given,
            token=SecretStr("" if file else known.token),
        )
    except SdkError as error:
        raise UsageError(str(error)) from None


def _ca_file(content: str) -> str:
    """Return a file with certificates, which a kubeconfig or `moorage up` has. Empty if there are none."""
    if not content:
        return ""
    kept = environment.state_folder() / "authorities"
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = kept / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.pem"
    if not file.exists():
        write_whole(file, content.encode(), mode=0o600)
    return str(file)
