"""An incident is played on a real stack, and each place shows it. Without Prometheus or Chromium, the rest is tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.brokers import Broker
from tests.support.incident.drill import IncidentDrill

pytestmark = pytest.mark.kafka


async def test_each_place_shows_an_incident(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    drill = IncidentDrill(tmp_path, factor=240, is_brief=True)
    await drill.run(broker, topic_prefix)
    assert drill.findings == []
