"""The incident drill: faults are played, and each place where an operator looks must show them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser
from tests.support import browsers
from tests.support.brokers import Broker
from tests.support.incident import pictures, prometheus, story, traces, viewer
from tests.support.incident.fleet import IncidentFleet, incident_fleet
from tests.support.otlp_collector import Collector, collecting
from tests.support.waiting import until

_RATE_INTERVAL: Final = "15s"  # as Grafana's, for a scrape each second


@dataclass
class IncidentDrill:
    """A drill with its findings.

    Args:
        folder: where screenshots and texts are written.
        factor: by which the waits of alerts are divided.
        jar: Zipkin's, or None.
        is_brief: leave out the pages of single panels, and most pages of the console.
        note: called with each step.
    """

    folder: Path
    factor: float = 60.0
    jar: Path | None = None
    is_brief: bool = False
    note: Callable[[str], None] = print
    findings: list[str] = field(default_factory=list)
    """What a place does not show, or shows wrongly."""

    figures: dict[str, Any] = field(default_factory=dict)

    def expect(self, where: str, texts: Mapping[str, str] | Iterable[str], text: str) -> None:
        """Note each regular expression that a text does not match."""
        for about, wanted in texts.items() if isinstance(texts, Mapping) else ((one, one) for one in texts):
            if not re.search(wanted, text):
                self.findings.append(f"{where}: not shown: {about}")

    def write(self, name: str, text: str) -> None:
        """Write a text beside the screenshots."""
        (self.folder / name).write_text(text, "utf-8")

    async def run(self, broker: Broker | None = None, prefix: str = "moorage") -> None:
        """Play the incident, and check each place."""
        self.folder.mkdir(parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            collector = stack.enter_context(collecting())
            self.note("starting Kafka, services and gateway")
            fleet = await stack.enter_async_context(
                incident_fleet(self.folder / "state", collector.endpoint, broker, prefix)
            )
            watched = None
            if prometheus.program():
                watched = await stack.enter_async_context(
                    prometheus.scraped(fleet.processes, self.folder / "prometheus", self.factor)
                )
            browser = await stack.enter_async_context(browsers.running_browser()) if browsers.program() else None
            shows = await stack.enter_async_context(viewer.viewing(self.jar, self.folder)) if self.jar else None
            self.note("declaring the fleet")
            await fleet.declare()
            calm = time.time()
            await self._calm(fleet, watched)
            self.note("playing the faults: zone eu/b is down, probe/disk falls silent, two budgets hold evictions")
            begin = time.time()
            await fleet.lose_zone()
            fleet.silence()
            await self._develop(fleet, watched)
            self.figures["shown_after_s"] = round(time.time() - begin, 1)
            self.note("checking logs, trace and status")
            await self._logs(fleet, browser)
            await self._trace(fleet, collector, browser, shows)
            await self._status(fleet, browser)
            await self._console(fleet, browser, await self._during(fleet))
            if watched is not None:
                await self._prometheus_pages(watched, browser, begin)
            self.note("ending the faults")
            end = time.time()
            await fleet.ready(story.DOWN)
            await fleet.disks(story.NODES)
            await self._recover(fleet, watched)
            self.figures["recovered_after_s"] = round(time.time() - end, 1)
            await self._after(fleet, browser)
            if watched is not None:
                await self._panels(watched, begin, time.time())
                self.figures["alerts"] = await watched.firings(calm, time.time())
                self._judge_firings(self.figures["alerts"])

    async def _calm(self, fleet: IncidentFleet, watched: prometheus.Prometheus | None) -> None:
        status = await fleet.moorage("status", "--strict")
        self.write("status-before.txt", status.out + status.err)
        if status.code:
            self.findings.append(f"moorage status before the faults: exit code {status.code}")
        if watched is not None:
            self.findings += [f"before the faults: {one['labels']}" for one in await watched.alerts()]

    async def _develop(self, fleet: IncidentFleet, watched: prometheus.Prometheus | None) -> None:
        """Wait until the incident is complete, and its alerts fire."""

        async def held() -> bool:
            evictions = await fleet.evictions()
            holders = {one for each in evictions for one in each["status"].get("heldBy", [])}
            ended = [one for one in evictions if one["status"]["state"] == "Completed"]
            return {"PodDisruptionBudget/shop/web", "EvictionBudget/orders-slowly"} <= holders and bool(ended)

        await until(held, 120, "the evictions are not held as they should be")
        self.note("waiting until the silence of the probe counts")

        async def silent() -> bool:
            nodes = await fleet.objects("/api/v1/nodes")
            return all(
                any(
                    one["type"] == "DiskPressure" and one["status"] == "Unknown" for one in node["status"]["conditions"]
                )
                for node in nodes
            )

        await until(silent, 120, "the silence of the probe is not noticed")
        if watched is None:
            return

        longest = max(story.LONGEST / self.factor, 1)
        self.note(f"the evictions are held; waiting until {len(story.ALERTS)} alerts fire, at least {longest:.0f} s")

        async def fire() -> bool:
            alerts = await watched.alerts()
            return all(one.is_in(alerts) for one in story.ALERTS)

        try:
            await until(fire, 60 + 2 * longest, "not all alerts fire")
        except TimeoutError:
            alerts = await watched.alerts()
            self.findings += [
                f"alerts: {one.name} {dict(one.labels)} does not fire" for one in story.ALERTS if not one.is_in(alerts)
            ]
        self.write("alerts.json", json.dumps(await watched.alerts(), indent=2))

    async def _recover(self, fleet: IncidentFleet, watched: prometheus.Prometheus | None) -> None:
        async def calm() -> bool:
            status = await fleet.moorage("status", "--strict")
            self.write("status-after.txt", status.out + status.err)
            return status.code == 0

        try:
            await until(calm, 90, "moorage status")
        except TimeoutError:
            self.findings.append("moorage status after the recovery: exit code 1, see status-after.txt")
        if watched is None:
            return
        self.note("waiting until the alerts end")

        async def quiet() -> bool:
            return not [one for one in await watched.alerts() if one["state"] == "firing"]

        try:
            await until(quiet, 90, "alerts")
        except TimeoutError:
            self.findings += [f"alerts: still firing after the recovery: {one}" for one in await watched.alerts()]

    async def _logs(self, fleet: IncidentFleet, browser: Browser | None) -> None:
        done = await fleet.moorage("logs")
        self.write("logs.txt", done.out)
        self.expect("moorage logs", story.LINES, done.out)
        pod = await _pod(fleet, story.RENDER)
        await self._terminal(fleet, browser, "logs.png", "logs", "--grep", "zone|granted|taint", "--target", "Node/b1")
        await self._terminal(fleet, browser, "logs-pod.png", "logs", "--workload", pod)

    async def _trace(
        self, fleet: IncidentFleet, collector: Collector, browser: Browser | None, shows: viewer.Viewer | None
    ) -> None:
        pod = await _pod(fleet, story.RENDER)
        trace = ""

        def arrived() -> bool:
            nonlocal trace
            trace = traces.trace_of(list(collector.spans), pod)
            return bool(trace)

        try:
            await until(arrived, 30)
        except TimeoutError:
            self.findings.append(f"traces: no span of the end of the eviction of {pod}")
            return
        spans = collector.trace(trace)
        chain = traces.chain_of(spans, pod)
        self.findings += [f"traces: the way of {pod} does not have: {one}" for one in traces.missing(chain)]
        if not any(one.attributes.get("moorage.state") == "Scheduled" for one in spans.values()):
            self.findings.append(f"traces: the trace of {pod} does not have its deadline")
        self.write("trace.txt", traces.text(chain))
        self.figures["trace"] = {
            "spans": len(spans),
            "report_to_end_s": round((chain[-1].end - chain[0].begin) / 1e9, 2),
        }
        if shows is not None and browser is not None:
            await shows.take(spans.values())
            await pictures.other_page(browser, shows.page(trace), self.folder / "trace.png", height=900)

    async def _status(self, fleet: IncidentFleet, browser: Browser | None) -> None:
        for words, code in ((("status",), 0), (("status", "--strict"), 1), (("doctor",), 0)):
            done = await fleet.moorage(*words)
            name = "-".join(word.strip("-") for word in words)
            self.write(f"{name}.txt", f"{done.out}{done.err}\nexit code {done.code}\n")
            if done.code != code:
                self.findings.append(f"moorage {' '.join(words)}: exit code {done.code}, expected {code}")
            if words[0] == "status":
                self.expect(f"moorage {' '.join(words)}", story.STATUS, done.out)
        await self._terminal(fleet, browser, "status.png", "status")

    async def _terminal(self, fleet: IncidentFleet, browser: Browser | None, name: str, *words: str) -> None:
        if browser is not None:
            done = await fleet.moorage(*words, colors=True)
            await pictures.terminal(browser, f"moorage {' '.join(words)}", done.out, self.folder / name)

    async def _console(
        self, fleet: IncidentFleet, browser: Browser | None, shots: Iterable[pictures.ConsoleShot]
    ) -> None:
        if browser is None:
            return
        folder = self.folder / "console"
        folder.mkdir(exist_ok=True)
        for shot in shots:
            self.note(f"  {shot.path}")
            looks = ["light", "phone"] if self.is_brief else list(pictures.LOOKS)
            self.findings += await pictures.console_page(browser, fleet.server, shot, folder, looks)

    async def _during(self, fleet: IncidentFleet) -> list[pictures.ConsoleShot]:
        held = await _pod(fleet, story.WEB, state="Held")
        left = await _pod(fleet, story.RENDER)
        pages = story.pages(held, left)
        return [pictures.ConsoleShot(*one) for one in pages if not self.is_brief or one[0] in story.BRIEF]

    async def _prometheus_pages(self, watched: prometheus.Prometheus, browser: Browser | None, begin: float) -> None:
        if browser is None:
            return
        folder = self.folder / "prometheus"
        await pictures.alerts_page(browser, await watched.pages(), folder)
        if self.is_brief:
            return
        pages = await watched.pages()
        for dashboard in ("fleet", "engine"):
            panels: dict[str, list[str]] = {}
            for query in prometheus.panel_queries(dashboard, _RATE_INTERVAL):
                if query.panel not in story.WITHOUT_DATA:
                    panels.setdefault(query.panel, []).append(query.expr)
            for number, (panel, expressions) in enumerate(panels.items(), 1):
                name = re.sub(r"\W+", "-", panel.lower()).strip("-")
                path = pictures.graph_path(expressions, time.time() - begin + 20)
                self.note(f"  {dashboard}: {panel}")
                await pictures.other_page(
                    browser, pages + path, folder / f"{dashboard}-{number:02}-{name}.png", height=600
                )

    async def _panels(self, watched: prometheus.Prometheus, begin: float, end: float) -> None:
        shown = [
            await watched.shown(query, begin, end)
            for dashboard in ("fleet", "engine")
            for query in prometheus.panel_queries(dashboard, _RATE_INTERVAL)
        ]
        self.findings += prometheus.faults_of(shown, story.FLEET_PANELS, story.WITHOUT_DATA)
        self.write("panels.txt", "".join(f"{one.query.dashboard} | {one.query.panel} | {one.peaks}\n" for one in shown))
        self.figures["panels"] = len({(one.query.dashboard, one.query.panel) for one in shown})

    async def _after(self, fleet: IncidentFleet, browser: Browser | None) -> None:
        done = await fleet.moorage("logs")
        self.write("logs-after.txt", done.out)
        self.expect("moorage logs after the recovery", story.LINES_AFTER, done.out)
        await self._console(
            fleet, browser, [pictures.ConsoleShot(*one) for one in story.PAGES_AFTER[: 1 if self.is_brief else None]]
        )

    def _judge_firings(self, firings: Mapping[str, int]) -> None:
        expected = {one.text for one in story.ALERTS}
        self.findings += [f"alerts: {name} fired {count} times" for name, count in firings.items() if count > 1]

        for name in firings.keys() - expected:
            if name.partition(" ")[0] not in story.MAY_FIRE:
                self.findings.append(f"alerts: {name} fired, which nothing here explains")


async def _pod(fleet: IncidentFleet, owner: str, state: str = "Completed") -> str:
    """Return the key of a pod of an owner that has an eviction in a state."""
    namespace, _, name = owner.partition("/")
    for one in await fleet.evictions():
        workload, status = one["status"]["workload"], one["status"]
        if (workload["namespace"], status["owner"]["name"], status["state"]) == (namespace, name, state):
            return f"Pod/{namespace}/{workload['name']}"
    raise RuntimeError(f"no eviction of {owner} is {state}")
