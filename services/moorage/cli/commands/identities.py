"""`moorage identities`: what a gateway needs to know who calls it, as files."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.cli.errors import CliError
from moorage.cli.render import output
from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.settings.environment import state_folder


def identities(
    *,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="A further name or address of the gateway. Repeatable.", show_default=False),
    ] = None,
) -> None:
    """Make the identities of a gateway: its administrator's token, its keys and a certificate.

    They are files in `gateway-identities` of the state folder (MOORAGE_STATE_DIR), which only this user can read. What
    is there stays, and a certificate that ends within 90 days is replaced. The output has the settings with which a
    gateway uses them. `moorage up` makes its own.
    """
    made = GatewayIdentities.in_state(state_folder())
    try:
        made.ensure()
        certificate, key = made.server_certificate(names or ())
    except (OSError, ValueError) as error:
        raise CliError(f"{made.folder}: the identities cannot be made: {error}") from None
    for variable, file in (
        ("MOORAGE_TOKEN_AUTH_FILE", made.tokens),
        ("MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE", made.signing_key),
        ("MOORAGE_TLS_CERT_FILE", certificate),
        ("MOORAGE_TLS_PRIVATE_KEY_FILE", key),
        ("MOORAGE_GATEWAY_CA_FILE", made.authority),
    ):
        output.line(f"{variable}={file}")
