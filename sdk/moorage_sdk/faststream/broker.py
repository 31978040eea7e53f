"""A broker with the identity of a connection."""

from __future__ import annotations

from typing import Any

from faststream.kafka import KafkaBroker

from moorage_sdk.settings import Connection

_LOCAL = "localhost:9092"


def moorage_broker(connection: Connection | None = None, **options: Any) -> KafkaBroker:
    """Return a broker with the identity of a connection. It is not connected yet.

    Args:
        connection: Kafka's address and the user. Read from the environment if None. Without an address it is
            `localhost:9092`, as FastStream has it.
        options: further options of `KafkaBroker`, such as `client_id`.

    Raises:
        SdkError: a file of the connection cannot be read.
    """
    connection = connection or Connection()
    servers = [part.strip() for part in connection.bootstrap_servers.split(",") if part.strip()]
    given: dict[str, Any] = {
        "acks": "all",
        "enable_idempotence": True,
        "security": connection.kafka_security(),
        "sasl_oauth_token_provider": connection.kafka_tokens(),
        "allow_auto_create_topics": False,  # topics are created by Moorage alone, from its table
    }
    return KafkaBroker(servers or _LOCAL, **given | options)
