"""The embedded broker with an authorizer: only operations that an ACL allows are permitted.

Clients have users and passwords (SCRAM). The broker has a password of its own, for its connections to itself and for
creating the users after each start. All of it is on the loopback interface, so there is no TLS.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient

from moorage.runtime.kafka.admin.scram_users import set_passwords

PROTOCOL: Final = "SASL_PLAINTEXT"
MECHANISM: Final = "SCRAM-SHA-512"
_BROKER: Final = "moorage-broker"
_LOGIN: Final = "org.apache.kafka.common.security"


class BrokerUsers:
    """The users of one embedded broker.

    Args:
        users: the passwords of the users, by their names.
        superusers: the users that may do everything.
    """

    def __init__(self, users: Mapping[str, str], superusers: tuple[str, ...] = ()) -> None:
        self._users = dict(users)
        self._superusers = superusers
        # It is used only while the broker runs, so each start may have another.
        self._password = secrets.token_urlsafe(32)

    def properties(self, port: int, controller_port: int) -> dict[str, str]:
        """Return the broker settings by their Kafka names."""
        broker = (
            f'{_LOGIN}.plain.PlainLoginModule required username="{_BROKER}" password="{self._password}" '
            f'user_{_BROKER}="{self._password}";'
        )
        clients = f"listener.name.{PROTOCOL.lower()}"
        return {
            "listeners": f"{PROTOCOL}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"{PROTOCOL}://127.0.0.1:{port}",
            "inter.broker.listener.name": PROTOCOL,
            "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},CONTROLLER:{PROTOCOL}",
            f"{clients}.sasl.enabled.mechanisms": f"{MECHANISM},PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"{clients}.plain.sasl.jaas.config": broker,
            f"{clients}.{MECHANISM.lower()}.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            "listener.name.controller.plain.sasl.jaas.config": broker,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": ";".join(f"User:{user}" for user in (_BROKER, *self._superusers)),
        }

    def client(self) -> dict[str, Any]:
        """Return the arguments of a client of aiokafka that is the broker's own user."""
        return {
            "security_protocol": PROTOCOL,
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": _BROKER,
            "sasl_plain_password": self._password,
        }

    async def make_users(self, bootstrap: str) -> None:
        """Set the passwords of the users. Former ones no longer count. Returns when the broker has stored them.

        Raises:
            KafkaError: the broker does not answer, or refuses.
            TimeoutError: it has not stored them in time.
        """
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="moorage-users", **self.client())
        try:
            await admin.start()
            await set_passwords(admin, self._users)
        finally:
            await admin.close()
