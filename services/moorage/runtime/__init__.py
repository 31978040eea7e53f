"""How it runs: everything between the pure core and Kafka."""

from __future__ import annotations
