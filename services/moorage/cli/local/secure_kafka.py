"""A Kafka on this machine that asks everybody who they are: users, passwords, and what each may do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from moorage.cli.errors import CliError
from moorage.runtime.embedded.broker_users import BrokerUsers
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin import acls
from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings


@dataclass(frozen=True, slots=True)
class SecureKafka:
    """The roles of a fleet, and where their passwords are."""

    folder: Path
    """The folder of the passwords. It is made at the start."""

    roles: tuple[str, ...]
    allowed: Callable[[str], Collection[acls.AclEntry]]
    """Returns what all roles may do, for a prefix of the topics."""

    def broker_users(self) -> BrokerUsers:
        """Return the users for the broker, whose passwords are made if there are none yet.

        Raises:
            CliError: the folder cannot be used.
        """
        try:
            passwords = kafka_identities.ensure(self.folder, (*self.roles, kafka_identities.ADMIN))
        except OSError as error:
            raise CliError(f"the passwords for Kafka cannot be kept in {self.folder}: {error}") from None
        users = {kafka_identities.USERS + role: password for role, password in passwords.items()}
        return BrokerUsers(users, superusers=(kafka_identities.USERS + kafka_identities.ADMIN,))

    def as_admin(self, settings: Settings) -> Settings:
        """Return settings for the superuser of the brokers."""
        return settings.model_copy(update=kafka_identities.settings_of(self.folder, kafka_identities.ADMIN))

    def environment(self, role: str) -> dict[str, str]:
        """Return the environment variables that make a process this role."""
        found = kafka_identities.settings_of(self.folder, role)
        return {variable(field): value for field, value in found.items()}

    async def allow(self, settings: Settings) -> int:
        """Allow the roles what they need, and nothing else. Return how many permissions were added.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
        """
        wanted = set(self.allowed(settings.topic_prefix))
        present = await acls.listed(settings, {entry.principal for entry in wanted})
        await acls.created(settings, wanted - present)
        return len(wanted - present)
