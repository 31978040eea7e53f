"""The embedded broker: a real, single-node Apache Kafka without set-up (a package brings its JRE, jars are fetched)."""

from __future__ import annotations

from moorage.runtime.embedded.broker import EmbeddedKafka, answers
from moorage.runtime.embedded.errors import EmbeddedKafkaError
from moorage.runtime.embedded.folders import default_data_dir

__all__ = ["EmbeddedKafka", "EmbeddedKafkaError", "answers", "default_data_dir"]
