"""Clients of Kafka: how they connect, authenticate and write. Whatever is imported of it, aiokafka is patched first."""

from __future__ import annotations

from moorage.runtime.kafka.clients.aiokafka_patches import apply_patches

apply_patches()
