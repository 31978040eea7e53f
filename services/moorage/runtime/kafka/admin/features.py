"""Requests the features that a cluster has finalized, such as `transaction.version`."""

from __future__ import annotations

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient

from moorage.runtime.kafka.clients.transactions_v2 import ApiVersionRequest_v3, FixedRequest


async def finalized_features(admin: AIOKafkaAdminClient) -> dict[str, int]:
    """Return the level of each feature that the cluster has finalized.

    Raises:
        KafkaError: Kafka does not answer, or is older than 2.7.
    """
    request = FixedRequest(ApiVersionRequest_v3("aiokafka", aiokafka.__version__, {}))
    answer = await admin._send_request(request)  # noqa: SLF001 - it has no public way
    return dict(answer.finalized_features)
