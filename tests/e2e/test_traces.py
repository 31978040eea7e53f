"""From a report to the acknowledgement of an eviction, one trace across processes arrives at a collector."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.live import Live, running
from tests.support.otlp_collector import Collector, ReceivedSpan, collecting
from tests.support.waiting import until

from moorage_schemas.placement import WorkloadBound
from moorage_schemas.times import format_time
from moorage_sdk.decisions import Remove, Running
from moorage_sdk.deployer import Deployer
from moorage_sdk.settings import Connection

pytestmark = pytest.mark.kafka

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    lifted: dict[str, Any] = {
        "node_eviction_rate": math.inf,
        "secondary_node_eviction_rate": math.inf,
        "large_cluster_size_threshold": 0,
        "node_monitor_period": 0,
        "node_monitor_grace_period": 0,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        folder = tmp_path_factory.mktemp("traces")
        async with running(broker.bootstrap, f"{RUN}-traces", folder, **lifted) as found:
            yield found


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"host": name}}}


def pod(name: str, host: str, seconds: int) -> dict[str, Any]:
    toleration = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec = {
        "nodeSelector": {"host": host},
        "containers": [{"name": "c", "image": "c:1"}],
        "tolerations": [{**toleration, "tolerationSeconds": seconds}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def not_ready(live: Live, name: str, traceparent: str = "") -> str:
    """Report that a node is not ready, and return the id of the report."""
    headers = {"content-type": "application/cloudevents+json"} | ({"traceparent": traceparent} if traceparent else {})
    now = format_time(datetime.now(UTC))
    document = {
        "specversion": "1.0",
        "id": f"report-{name}",
        "source": "probe/test",
        "type": "io.moorage.condition.reported.v1",
        "time": now,
        "data": {
            "target": {"kind": "Node", "name": name},
            "type": "Ready",
            "status": "False",
            "reason": "KubeletStopped",
            "observedTime": now,
        },
    }
    async with httpx.AsyncClient(base_url=live.server) as http:
        answer = await http.post("/v1/conditions", content=json.dumps(document), headers=headers)
    assert answer.is_success, answer.text
    return str(document["id"])


def named(spans: dict[str, ReceivedSpan]) -> dict[str, list[ReceivedSpan]]:
    found: dict[str, list[ReceivedSpan]] = {}
    for span in sorted(spans.values(), key=lambda one: one.begin):
        state = span.attributes.get("moorage.state", "")
        found.setdefault(f"{span.name} {state}".strip(), []).append(span)
    return found


@pytest.mark.parametrize(
    ("transport", "trace"),
    [
        ("kafka", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("http", "4bf92f3577b34da6a3ce929d0e0e4737"),
    ],
)
async def test_one_trace_from_the_report_to_the_acknowledgement(
    live: Live, collector: Collector, transport: str, trace: str
) -> None:
    kafka = Connection(bootstrap_servers=live.bootstrap, topic_prefix=live.prefix)
    deployer = Deployer(f"deployer/{transport}", kafka if transport == "kafka" else Connection(server=live.server))
    host, name = f"{transport}-1", f"web-{transport}"
    started, stopped = asyncio.Event(), asyncio.Event()

    @deployer.inventory
    async def running_now() -> list[Running]:
        return []

    @deployer.on_placement
    async def start(bound: WorkloadBound) -> None:
        if bound.workload.name == name:
            started.set()

    @deployer.on_eviction
    async def stop(removal: Remove) -> None:
        if removal.running.workload.name == name:
            stopped.set()

    deploying = asyncio.create_task(deployer.run())
    try:
        documents = [node(host), node("witness"), pod(name, host, 1)]
        await live.here("apply", "-f", "-", text=yaml.safe_dump_all(documents))
        async with asyncio.timeout(60):
            await started.wait()
        await until(lambda: any(_is_about(one, name) for one in list(collector.spans)))
        await not_ready(live, host, f"00-{trace}-{CALLER}-01")
        async with asyncio.timeout(60):
            await stopped.wait()
        await until(lambda: "send evictions Completed" in named(collector.trace(trace)))
    finally:
        deploying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await deploying
    spans = collector.trace(trace)
    found = named(spans)
    (report,) = [one for one in found["send condition-reports"] if one.attributes["moorage.condition"] == "Ready"]
    assert (report.service, report.parent_id) == ("moorage-gateway", CALLER)
    assert report.attributes["moorage.target"] == f"Node/{host}"

    def chain(span: ReceivedSpan) -> list[str]:
        """Return the names of the spans from the report on."""
        names = [f"{span.service}: {span.name}"]
        while span.parent_id != CALLER:
            span = spans[span.parent_id]
            names.append(f"{span.service}: {span.name}")
        return names[::-1]

    (requested, *_) = found["send evictions Requested"]
    assert chain(requested) == [
        "moorage-gateway: send condition-reports",
        "moorage-condition-ingest: send conditions",
        "moorage-taint-manager: send zone-members",
        "moorage-governor: send zone-grants",
        "moorage-taint-manager: send taints",
        "moorage-timer: send timer-fired",
        "moorage-eviction: send evictions",
    ], "the timer of the toleration is in the trace"
    acknowledged = chain(found["send evictions Completed"][-1])
    assert acknowledged[-1] == "moorage-eviction: send evictions"
    assert {"moorage-placement: send bindings"} <= {f"{one.service}: {one.name}" for one in spans.values()}
    (answer,) = [
        one for one in found["send workload-conditions"] if "Evicted" in one.attributes["messaging.kafka.message.key"]
    ]
    own = ["moorage-gateway: send condition-reports"] if transport == "http" else []
    expected = ["moorage-eviction: send evictions", *own, "moorage-condition-ingest: send workload-conditions"]
    assert chain(answer)[-len(expected) :] == expected, "the deployer continues the trace"
    assert all(span.end >= span.begin for span in spans.values())
    assert [one for one in spans.values() if one.parent_id not in spans and one.parent_id != CALLER] == []


def _is_about(span: ReceivedSpan, name: str) -> bool:
    return span.name == "send workload-conditions" and name in span.attributes["messaging.kafka.message.key"]


async def test_a_trace_begins_by_itself_and_an_unsampled_one_is_not_exported(live: Live, collector: Collector) -> None:
    await live.here("apply", "-f", "-", text=yaml.safe_dump_all([node("n2"), node("n3")]))
    other = TRACE[::-1]
    await not_ready(live, "n2", f"00-{other}-{CALLER}-00")
    await not_ready(live, "n3")

    def begun() -> list[ReceivedSpan]:
        about = [one for one in list(collector.spans) if one.attributes.get("moorage.target") == "Node/n3"]
        return [one for one in about if one.name == "send condition-reports"]

    def tainted() -> int:
        return sum(one.name == "send taints" for report in begun() for one in collector.trace(report.trace_id).values())

    await until(lambda: tainted() >= 2)
    (report,) = begun()
    assert report.parent_id == ""
    assert collector.trace(other) == {}
