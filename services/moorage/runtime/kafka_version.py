"""Which Kafka the embedded broker is. A module of its own, so that it can be told without loading the broker."""

from __future__ import annotations

from typing import Final

KAFKA_VERSION: Final = "4.3.1"
