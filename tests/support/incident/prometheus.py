"""A Prometheus beside a local stack, with the scrape configuration, the rules and the dashboards that are shipped."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import yaml
from tests.architecture.files import ROOT
from tests.support.incident.story import ExpectedSeries
from tests.support.waiting import until

from moorage.cli.local.stack import free_ports

MONITORING: Final = ROOT / "ops" / "monitoring"
_SHORT_FROM: Final = 1800
"""Seconds from which an age in an expression counts as long, and is shortened."""

_CONFIG, _RULES = "prometheus.yaml", "rules.yaml"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_OPEN_METRICS: Final = (2, 49)
"""The version since which `scrape_protocols` exists."""


@cache
def program() -> str:
    """The path of Prometheus. Empty if there is none."""
    return shutil.which("prometheus") or ""


def version() -> tuple[int, ...]:
    """The version of the program."""
    done = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+)\.(\d+)", done.stdout + done.stderr)
    return tuple(map(int, found.groups())) if found else (0, 0)


def scraping(
    shipped: Mapping[str, Any], addresses: Mapping[str, str], interval: str, version: tuple[int, ...]
) -> dict[str, Any]:
    """Return the shipped configuration for processes at fixed addresses of this machine.

    Names of the network of containers become addresses, by the name of the process. The gateway of a local stack
    serves HTTP without authentication. What an older Prometheus does not have is left out.

    Args:
        shipped: `ops/monitoring/prometheus.yaml`.
        addresses: the URLs of processes by name, as `moorage up` prints them.
        interval: the scrape interval, also of the rules.
        version: the version of Prometheus.
    """
    jobs = []
    for job in shipped["scrape_configs"]:
        is_gateway = "gateway" in job["job_name"]
        static = [
            {"targets": [urlsplit(url).netloc], "labels": {"component": name}}
            for name, url in addresses.items()
            if name.startswith("gateway") is is_gateway
        ]
        dropped = {"dns_sd_configs", "relabel_configs", "scheme", "authorization", "tls_config"}
        dropped |= set() if version >= _OPEN_METRICS else {"scrape_protocols"}
        kept = {name: value for name, value in job.items() if name not in dropped}
        jobs.append({**kept, "static_configs": static})
    times = {"scrape_interval": interval, "evaluation_interval": interval}
    return {"global": {**shipped["global"], **times}, "rule_files": [_RULES], "scrape_configs": jobs}


def shortened(rules: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return the rules with shorter waits, so that they fire within a drill.

    Each `for` is divided by the factor. So are ages of half an hour and more in expressions, `time() - … > 3600` for
    example. All else stays as it is shipped.
    """

    def age(match: re.Match[str]) -> str:
        seconds = int(match[1])
        return f"> {seconds / factor:g}" if seconds >= _SHORT_FROM else match[0]

    def rule(one: Mapping[str, Any]) -> dict[str, Any]:
        expr = re.sub(r"> (\d+)\b", age, one["expr"]) if "time()" in one["expr"] else one["expr"]
        waits = {"for": f"{round(1000 * _seconds(one['for']) / factor)}ms"} if "for" in one else {}
        return {**one, "expr": expr, **waits}

    return {"groups": [{**group, "rules": [rule(one) for one in group["rules"]]} for group in rules["groups"]]}


def _seconds(text: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """A query of a panel of a dashboard."""

    dashboard: str
    panel: str
    kind: str
    expr: str
    legend: str

    @property
    def labels(self) -> frozenset[str]:
        """The labels that the legend shows."""
        return frozenset(re.findall(r"\{\{(\w+)\}\}", self.legend))

    def named(self, metric: Mapping[str, str]) -> str:
        """Return the legend of a series. A table shows the values of all labels, in the order of their names."""
        if self.kind == "table":
            return " ".join(value for name, value in sorted(metric.items(), reverse=True) if name != "__name__")
        return re.sub(r"\{\{(\w+)\}\}", lambda match: metric.get(match[1], ""), self.legend)


def panel_queries(dashboard: str, rate_interval: str) -> Iterator[PanelQuery]:
    """Yield the queries of a shipped dashboard, with the interval that Grafana inserts."""
    shipped = json.loads((MONITORING / "dashboards" / f"{dashboard}.json").read_text("utf-8"))
    for panel in shipped["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", rate_interval)
            yield PanelQuery(dashboard, panel["title"], panel["type"], expr, target["legendFormat"])


@dataclass(frozen=True, slots=True)
class Shown:
    """What a query has returned over a time."""

    query: PanelQuery
    peaks: dict[str, float]
    """The largest value of each series by legend."""

    error: str = ""
    without: frozenset[str] = frozenset()
    """Labels of the legend that a series lacks."""


def faults_of(shown: Iterable[Shown], expected: Iterable[ExpectedSeries], without_data: Collection[str]) -> list[str]:
    """Return what is wrong with the panels of the dashboards.

    A query may have no error, and each series has the labels of its legend. A panel has data, unless it is about what
    did not happen. The panels of the fleet show what is expected.
    """
    found, peaks = [], dict[str, dict[str, float]]()
    for one in shown:
        where = f"dashboard {one.query.dashboard}: {one.query.panel}"
        if one.error:
            found.append(f"{where}: {one.error}")
        found += [f"{where}: the legend shows the label {label!r}, which is missing" for label in sorted(one.without)]
        peaks.setdefault(where, {}).update(one.peaks)
    for where, of_panel in peaks.items():
        if not of_panel and where.partition(": ")[2] not in without_data:
            found.append(f"{where}: no data")
    for wanted in expected:
        of_panel = peaks.get(f"dashboard fleet: {wanted.panel}", {})
        if not wanted.is_in(of_panel):
            found.append(f"dashboard fleet: {wanted.panel}: no {wanted.legend!r} >= {wanted.least:g} in {of_panel}")
    return found


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    address: str
    process: asyncio.subprocess.Process

    async def get(self, path: str, **query: str) -> Any:
        """Return the data of an answer. Raises RuntimeError with Prometheus' error."""
        async with httpx.AsyncClient(base_url=self.address, timeout=30) as client:
            answer = (await client.get(f"/api/v1/{path}", params=query)).json()
        if answer["status"] != "success":
            raise RuntimeError(f"{path} {query}: {answer.get('error', answer)}")
        return answer["data"]

    async def pages(self) -> str:
        """Return the address under which its pages are. Debian's build has the classic ones alone."""
        async with httpx.AsyncClient(base_url=self.address, timeout=30) as client:
            is_classic = (await client.get("/alerts")).status_code == httpx.codes.NOT_FOUND
        return f"{self.address}/classic" if is_classic else self.address

    async def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or firing."""
        found: list[dict[str, Any]] = (await self.get("alerts"))["alerts"]
        return found

    async def firings(self, begin: float, end: float) -> dict[str, int]:
        """Return how often each alert began to fire in a time, by its name and labels."""
        series = await self.get(
            "query_range", query='ALERTS{alertstate="firing"}', start=str(begin), end=str(end), step="1"
        )
        found: dict[str, int] = {}
        for one in series["result"]:
            labels = {name: value for name, value in one["metric"].items() if name not in _COMMON}
            times = [float(time) for time, _ in one["values"]]
            starts = 1 + sum(later - earlier > _GAP for earlier, later in itertools.pairwise(times))
            name = one["metric"]["alertname"]
            found[f"{name} {' '.join(f'{label}={value}' for label, value in sorted(labels.items()))}".strip()] = starts
        return found

    async def shown(self, query: PanelQuery, begin: float, end: float) -> Shown:
        """Return what a query shows over a time."""
        try:
            data = await self.get("query_range", query=query.expr, start=str(begin), end=str(end), step="1")
        except RuntimeError as error:
            return Shown(query, {}, str(error))
        peaks: dict[str, float] = {}
        without: set[str] = set()
        for series in data["result"]:
            values = [float(value) for _, value in series["values"] if value != "NaN"]
            if values:
                name = query.named(series["metric"])
                peaks[name] = max([*values, peaks.get(name, values[0])])
                without |= query.labels - series["metric"].keys()
        return replace(Shown(query, peaks), without=frozenset(without))


_COMMON: Final = {"__name__", "alertname", "alertstate", "severity"}
_GAP: Final = 2.5  # seconds without a sample after which an alert has fired anew


def _configure(addresses: Mapping[str, str], folder: Path, factor: float, interval: str) -> None:
    """Write the configuration and the rules into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    short = shortened(yaml.safe_load((MONITORING / "rules.yaml").read_text("utf-8")), factor)
    (folder / _RULES).write_text(yaml.safe_dump(short, sort_keys=False, width=120), "utf-8")
    shipped = yaml.safe_load((MONITORING / "prometheus.yaml").read_text("utf-8"))
    document = scraping(shipped, addresses, interval, version())
    (folder / _CONFIG).write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")


@asynccontextmanager
async def scraped(
    addresses: Mapping[str, str], folder: Path, factor: float, interval: str = "1s"
) -> AsyncIterator[Prometheus]:
    """Run a Prometheus that scrapes processes and evaluates the shortened rules. It ends with the context."""
    _configure(addresses, folder, factor, interval)
    (port,) = free_ports(1)
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program(),
            f"--config.file={_CONFIG}",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--enable-feature=exemplar-storage",
            cwd=folder,  # so that the page of the alerts shows no path of this machine
            stdout=log,
            stderr=log,
        )
    found = Prometheus(f"http://127.0.0.1:{port}", process)
    try:
        await until(lambda: _is_ready(found), 60, f"Prometheus is not ready, see {folder / 'prometheus.log'}")
        yield found
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _is_ready(prometheus: Prometheus) -> bool:
    """Return whether all processes are scraped. Raises RuntimeError if Prometheus has ended."""
    if prometheus.process.returncode is not None:
        raise RuntimeError(f"Prometheus ended with {prometheus.process.returncode}")
    try:
        targets = (await prometheus.get("targets"))["activeTargets"]
    except (httpx.TransportError, RuntimeError, ValueError):
        return False
    return bool(targets) and all(one["health"] == "up" for one in targets)
