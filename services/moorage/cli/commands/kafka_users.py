"""`moorage kafka passwords` and `moorage kafka users`: the users of a Kafka that is run by others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.api import endpoints, topics
from moorage.cli.contract import kafka_roles
from moorage.cli.errors import CliError
from moorage.cli.render import output
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin.scram_users import set_passwords
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.passwords import SecretFileError, read_secret
from moorage.runtime.settings.process_settings import Settings

_FOR_CONTAINERS = 0o644


def passwords(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder for the passwords.", file_okay=False)],
    *,
    containers: Annotated[
        bool,
        typer.Option(
            "--for-containers",
            help="Let every user of a container read what is put into it. Here the folder keeps others out.",
        ),
    ] = False,
) -> None:
    """Make a password for each user of Kafka: services, probes, deployers, people, and brokers.

    Passwords that are there stay. To change one, remove its file, run this again, and then `moorage kafka users`.
    The file kafka.jaas is the login configuration for brokers.
    """
    roles = [*(role.name for role in kafka_roles.roles()), kafka_identities.ADMIN, kafka_identities.BROKER]
    mode = _FOR_CONTAINERS if containers else 0o600
    try:
        made = kafka_identities.ensure(folder, roles, mode=mode)
        kafka_identities.write_login(folder, made, mode=mode)
    except OSError as error:
        raise CliError(f"the passwords cannot be kept in {folder}: {error}") from None
    output.line(f"{len(made)} passwords in {folder}")


def users(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with the passwords.", exists=True)],
) -> None:
    """Give Kafka's users the passwords of a folder, by SCRAM-SHA-512. Needs the right to alter the cluster."""
    found: dict[str, str] = {}
    for role in kafka_roles.roles():
        try:
            found[kafka_identities.USERS + role.name] = read_secret(
                str(kafka_identities.password_file(folder, role.name))
            )
        except SecretFileError as error:
            raise CliError(f"{error}\nMake the passwords with `moorage kafka passwords`.") from None
    bootstrap, prefix = endpoints.kafka()
    settings = endpoints.load_settings(
        kafka_role=kafka_identities.ADMIN, bootstrap_servers=bootstrap, topic_prefix=prefix
    )
    topics.run(settings, _set(settings, found))
    output.line(f"{len(found)} users have their passwords")


async def _set(settings: Settings, found: dict[str, str]) -> None:
    async with clients.administration(settings) as admin:
        await set_passwords(admin, found)
