"""Clients of Kafka, by FastStream."""

from __future__ import annotations

from faststream.kafka import KafkaBroker

from moorage_sdk.settings import Connection


def broker(connection: Connection, *, client_id: str, consumer_only: bool = False) -> KafkaBroker:
    """A broker with the identity of a connection. It is not connected yet.

    Args:
        connection: Kafka's address and the user.
        client_id: the name of the clients.
        consumer_only: whether nothing is written.
    """
    return KafkaBroker(
        [part.strip() for part in connection.bootstrap_servers.split(",") if part.strip()],
        client_id=client_id,
        acks="all",
        enable_idempotence=True,
        security=connection.kafka_security(),
        sasl_oauth_token_provider=connection.kafka_tokens(),
        consumer_only=consumer_only,
        allow_auto_create_topics=False,  # topics are created by Moorage alone, from its table
        logger=None,  # FastStream logs each message
    )
