"""The version of the embedded Kafka. It has its own module, so that it can be read without loading the broker."""

from __future__ import annotations

from typing import Final

KAFKA_VERSION: Final = "4.3.1"
