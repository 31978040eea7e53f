"""The embedded broker: a real, single-node Apache Kafka that needs no setup. Its JRE comes as a Python package."""

from __future__ import annotations

from moorage.runtime.embedded.broker import EmbeddedKafka, answers
from moorage.runtime.embedded.data_folder import EmbeddedKafkaError, default_data_dir

__all__ = ["EmbeddedKafka", "EmbeddedKafkaError", "answers", "default_data_dir"]
