"""A whole Moorage on a real broker, decided on again from its topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.live import running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


async def test_what_a_live_moorage_decides_comes_out_again(broker: Broker, tmp_path: Path) -> None:
    given = {"node_monitor_period": 0.1, "node_eviction_rate": 100.0}
    async with running(broker.bootstrap, f"{RUN}-replay", tmp_path, **given) as live:
        nodes = ("r1", "r2", "r3")
        objects = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in nodes]
        objects += [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            for number in range(6)
        ]
        await live.here("apply", "-f", "-", text=yaml.dump_all(objects))
        for name in nodes:
            await live.here("report", f"node/{name}", "Ready=True")

        async def placed() -> bool:
            items = (await live.here("get", "pods", "-o", "json")).json["items"]
            return len(items) == 6 and all(one["spec"].get("nodeName") for one in items)

        await until(placed)
        await live.here("taint", "node", "r1", "maint=1:NoExecute")
        await live.here("report", "node/r2", "Ready=False")

        async def gone() -> bool:
            items = (await live.here("get", "pods", "-o", "json")).json["items"]
            return not any(one["spec"].get("nodeName") == "r1" for one in items)

        await until(gone)
        answers: list[Any] = []

        async def whole() -> bool:
            """Whether all is there: of a transaction that is being committed some records may be read before others."""
            answers.append((await live.here("replay", "--from", "topics", "-o", "json")).json)
            assert answers[-1]["differing"] == 0
            return bool(answers[-1]["missing"] == 0)

        await until(whole)
        answer = answers[-1]
        by_service: dict[str, int] = {}
        for one in answer["partitions"]:
            by_service[one["service"]] = by_service.get(one["service"], 0) + one["equal"]
        for name in ("condition-ingest", "taint-manager", "governor", "placement", "eviction"):
            assert by_service[name] > 0, name

        export = tmp_path / "export.jsonl.gz"
        told = await live.here("replay", "--record", str(export))
        assert told.out.endswith(f"records written to {export}\n")
        again = (await live.here("replay", "--from", str(export), "-o", "json")).json
        assert again["differing"] == 0
        assert again["equal"] >= answer["equal"]
