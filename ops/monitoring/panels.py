"""The dashboards of Grafana. `render` writes them as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

WIDTH: Final = 24
"""The columns of a dashboard."""

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA: Final = 39  # of Grafana 11; later versions migrate it


@dataclass(frozen=True)
class Query:
    """A query of a panel."""

    expr: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True)
class Panel:
    """A panel of a dashboard."""

    title: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    about: str = ""
    stacked: bool = False
    colors: dict[str, str] = field(default_factory=dict)
    """Colors by legend."""

    red_from: float | None = None
    """The value from which it is red."""

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """Return it as Grafana has it."""
        custom = {"fillOpacity": 25, "stacking": {"mode": "normal"}} if self.stacked else {"fillOpacity": 8}
        steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
        if self.red_from is not None:
            steps.append({"color": "red", "value": self.red_from})
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.about,
            "datasource": _SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {
                "defaults": {
                    "unit": self.unit,
                    "min": 0,
                    "custom": custom if self.kind == "timeseries" else {},
                    "thresholds": {"mode": "absolute", "steps": steps},
                },
                "overrides": [
                    {
                        "matcher": {"id": "byName", "options": name},
                        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
                    }
                    for name, color in self.colors.items()
                ],
            },
            "options": _OPTIONS[self.kind],
            "targets": [
                {
                    "refId": chr(ord("A") + place),
                    "datasource": _SOURCE,
                    "expr": query.expr,
                    "legendFormat": query.legend,
                    "exemplar": query.exemplars,
                    **({"instant": True, "format": "table"} if self.kind == "table" else {}),
                }
                for place, query in enumerate(self.queries)
            ],
        }


_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "background",
        "graphMode": "area",
        "textMode": "auto",
    },
    "table": {"showHeader": True},
    "bargauge": {
        "displayMode": "gradient",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
}
_STATES: Final = {"Ready": "green", "NotReady": "red", "Unknown": "orange", "Unreported": "gray"}
_EVICTIONS: Final = {"Scheduled": "blue", "Held": "orange", "Requested": "red"}


def one(expr: str, legend: str = "", *, exemplars: bool = False) -> tuple[Query, ...]:
    """Return a single query."""
    return (Query(expr, legend, exemplars),)


def quantiles(metric: str, by: str = "") -> tuple[Query, ...]:
    """Return the median and the 99th percentile of a histogram."""
    labels = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        Query(
            f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))", f"{name}{legend}"
        )
        for q, name in (("0.5", "median"), ("0.99", "p99"))
    )


FLEET: Final = (
    Panel(
        "Not ready",
        one('sum(moorage_targets{state=~"NotReady|Unknown"}) or vector(0)'),
        "stat",
        width=4,
        height=4,
        red_from=1,
    ),
    Panel(
        "Disrupted zones",
        one('sum(moorage_zone_state{state!="Normal"}) or vector(0)'),
        "stat",
        width=4,
        height=4,
        red_from=1,
    ),
    Panel("Held", one('sum(moorage_evictions_open{state="Held"}) or vector(0)'), "stat", width=4, height=4, red_from=1),
    Panel("Unscheduled", one("sum(moorage_workloads_unscheduled) or vector(0)"), "stat", width=4, height=4, red_from=1),
    Panel(
        "Silent sources",
        one('count(sum by (kind, source) (moorage_source_targets{state="Silent"}) > 0) or vector(0)'),
        "stat",
        width=4,
        height=4,
        red_from=1,
    ),
    Panel("Pauses", one("max(moorage_eviction_pauses) or vector(0)"), "stat", width=4, height=4, red_from=1),
    Panel(
        "Targets by state",
        one("sum by (state) (moorage_targets)", "{{state}}"),
        stacked=True,
        colors=_STATES,
        about="Nodes, clusters and managed clusters. Unreported ones count as ready.",
    ),
    Panel(
        "Not ready by zone",
        one('sum by (zone) (moorage_targets{state=~"NotReady|Unknown"})', "{{zone}}"),
        stacked=True,
    ),
    Panel(
        "Evictions a minute",
        one(
            "60 * sum by (state, reason) (rate(moorage_evictions_total[$__rate_interval]))",
            "{{state}} {{reason}}",
            exemplars=True,
        ),
        about="Exemplars name the workload for `moorage explain`.",
    ),
    Panel(
        "Not ready, as part of the zone",
        (
            Query("max by (zone) (moorage_zone_not_ready_nodes / moorage_zone_nodes)", "{{zone}}"),
            Query("max(moorage_zone_unhealthy_threshold_ratio)", "threshold"),
        ),
        unit="percentunit",
        colors={"threshold": "red"},
        about="From the threshold, a zone is in PartialDisruption, and fewer of its nodes may be tainted.",
    ),
    Panel("Nodes that wait for the taint that evicts", one("max by (zone) (moorage_zone_waiting_nodes)", "{{zone}}")),
    Panel(
        "Tokens and rates",
        (
            Query("max by (zone) (moorage_zone_tokens)", "tokens {{zone}}"),
            Query("max by (zone) (moorage_zone_eviction_rate)", "rate {{zone}}"),
        ),
        about="A node takes a whole token. The rate is in nodes per second.",
    ),
    Panel(
        "Zones", one("max by (zone, state) (moorage_zone_state) == 1"), "table", about="The present state of each zone."
    ),
    Panel(
        "Open evictions",
        one("sum by (state) (moorage_evictions_open)", "{{state}}"),
        stacked=True,
        colors=_EVICTIONS,
    ),
    Panel("Held, by the kinds of what holds them", one("sum by (by) (moorage_evictions_held)", "{{by}}"), stacked=True),
    Panel(
        "Longest hold",
        one("time() - min by (by) (moorage_evictions_held_since_timestamp_seconds)", "{{by}}"),
        unit="s",
        red_from=3600,
    ),
    Panel(
        "Lateness of evictions",
        (
            *quantiles("moorage_eviction_lateness_seconds", "held"),
            Query(
                'clamp_min(time() - min(moorage_evictions_oldest_timestamp_seconds{state="Scheduled"}), 0)', "overdue"
            ),
        ),
        unit="s",
        about="From the deadline to the request. `overdue` is the oldest eviction that is neither requested nor held.",
    ),
    Panel(
        "From the request to the end of the work",
        quantiles("moorage_eviction_removal_seconds"),
        unit="s",
    ),
    Panel(
        "Unscheduled workloads",
        one("sum by (kind, reason) (moorage_workloads_unscheduled)", "{{kind}} {{reason}}"),
        stacked=True,
    ),
    Panel(
        "Decisions on workloads",
        one(
            "sum by (outcome, reason) (rate(moorage_placements_total[$__rate_interval]))",
            "{{outcome}} {{reason}}",
            exemplars=True,
        ),
        unit="ops",
    ),
    Panel("Taints", one("sum by (key, effect) (moorage_taints)", "{{key}}:{{effect}}")),
    Panel("Taints that wait", one("sum by (key, effect) (moorage_taints_waiting)", "{{key}}:{{effect}}")),
    Panel(
        "Targets about which sources are silent",
        one('sum by (kind, source) (moorage_source_targets{state="Silent"})', "{{source}} {{kind}}"),
    ),
    Panel(
        "Targets by source",
        one("sum by (kind, source) (moorage_source_targets)", "{{source}} {{kind}}"),
    ),
    Panel(
        "Evictions that budgets allow",
        one("min by (budget) (moorage_eviction_budget_allowed)", "{{budget}}"),
    ),
    Panel(
        "Evictions in progress and held, by budget",
        (
            Query("sum by (budget) (moorage_eviction_budget_in_progress)", "in progress {{budget}}"),
            Query("sum by (budget) (moorage_eviction_budget_held)", "held {{budget}}"),
        ),
    ),
    Panel("PodDisruptionBudgets", one("sum by (reason) (moorage_disruption_budgets)", "{{reason}}"), stacked=True),
    Panel(
        "Reports of deployers that work was not removed",
        (
            Query("sum by (reason) (rate(moorage_evictions_escalated_total[$__rate_interval]))", "{{reason}} a second"),
            Query("sum by (reason) (moorage_evictions_unremoved)", "{{reason}} now"),
        ),
    ),
)

ENGINE: Final = (
    Panel(
        "Lag", one("sum by (service) (moorage_lag_records)", "{{service}}"), about="Records that are not processed yet."
    ),
    Panel("Decision latency", quantiles("moorage_decision_latency_seconds", "topic"), unit="s"),
    Panel(
        "Since the last decision",
        (
            Query("time() - max by (service) (moorage_last_decision_timestamp_seconds)", "{{service}}"),
            Query("time() - max(moorage_last_report_timestamp_seconds)", "last report"),
        ),
        unit="s",
    ),
    Panel(
        "Restore",
        one("min by (service) (moorage_restore_progress)", "{{service}}"),
        unit="percentunit",
        about="The partition that is furthest behind.",
    ),
    Panel(
        "Partitions",
        (
            Query("sum by (service) (moorage_partitions_owned)", "{{service}}"),
            Query("sum by (service) (moorage_partitions_standby_warm)", "{{service}} warm"),
        ),
    ),
    Panel(
        "Restarts of partitions",
        one("sum by (service, why) (rate(moorage_partition_restarts_total[$__rate_interval]))", "{{service}} {{why}}"),
        unit="ops",
    ),
    Panel(
        "Records processed",
        one("sum by (service) (rate(moorage_records_total[$__rate_interval]))", "{{service}}"),
        unit="ops",
    ),
    Panel(
        "Events written",
        one("sum by (topic) (rate(moorage_events_emitted_total[$__rate_interval]))", "{{topic}}"),
        unit="ops",
    ),
    Panel(
        "Batches", quantiles("moorage_batch_seconds", "service"), unit="s", about="From taking a batch to its commit."
    ),
    Panel(
        "Transactions",
        (
            Query("sum by (service) (rate(moorage_transactions_committed_total[$__rate_interval]))", "{{service}}"),
            Query(
                "sum by (service) (rate(moorage_transactions_aborted_total[$__rate_interval]))", "aborted {{service}}"
            ),
        ),
        unit="ops",
    ),
    Panel(
        "Dead letters",
        one("sum by (service, reason) (rate(moorage_dead_letters_total[$__rate_interval]))", "{{service}} {{reason}}"),
        unit="ops",
    ),
    Panel(
        "Repairs and lost markers",
        (
            Query(
                "sum by (service) (increase(moorage_reconciler_repairs_total[$__rate_interval]))", "repairs {{service}}"
            ),
            Query(
                "sum by (service) (increase(moorage_lost_markers_total[$__rate_interval]))", "lost markers {{service}}"
            ),
        ),
    ),
    Panel("Lateness of timers", quantiles("moorage_timer_lateness_seconds"), unit="s"),
    Panel("Clock offset", one("moorage_clock_offset_seconds", "{{instance}}"), unit="s"),
    Panel(
        "Requests to the gateway",
        one("sum by (verb, code) (rate(moorage_gateway_requests_total[$__rate_interval]))", "{{verb}} {{code}}"),
        unit="reqps",
    ),
    Panel("Time of requests to the gateway", quantiles("moorage_gateway_request_seconds", "verb"), unit="s"),
    Panel(
        "Gateway",
        (
            Query("max(moorage_gateway_ready)", "ready"),
            Query("sum(moorage_gateway_watches)", "watches"),
            Query("sum by (code) (rate(moorage_gateway_refused_total[$__rate_interval]))", "refused {{code}}"),
        ),
    ),
    Panel(
        "Webhooks",
        (
            Query("sum by (webhook) (moorage_webhook_waiting)", "waiting {{webhook}}"),
            Query(
                "sum by (webhook, outcome) (rate(moorage_webhook_attempts_total[$__rate_interval]))",
                "{{outcome}} {{webhook}}",
            ),
        ),
    ),
    Panel(
        "Acts of bridges",
        one("sum by (act, outcome) (rate(moorage_bridge_acts_total[$__rate_interval]))", "{{act}} {{outcome}}"),
        unit="ops",
        about="`refused` is an answer of the real cluster, `failed` an error of its API server or the network.",
    ),
    Panel(
        "Bridges",
        (
            Query("min by (instance) (moorage_bridge_linked)", "linked {{instance}}"),
            Query("max by (instance) (moorage_bridge_leading)", "leading {{instance}}"),
            Query("sum by (queue) (moorage_bridge_waiting)", "waiting {{queue}}"),
        ),
    ),
    Panel(
        "Sent by bridges",
        (
            Query("sum by (outcome) (rate(moorage_bridge_mirrored_total[$__rate_interval]))", "objects {{outcome}}"),
            Query("sum by (outcome) (rate(moorage_bridge_reported_total[$__rate_interval]))", "reports {{outcome}}"),
        ),
        unit="ops",
    ),
)

DASHBOARDS: Final = {
    "fleet": ("Moorage fleet", FLEET),
    "engine": ("Moorage engine", ENGINE),
}
"""The dashboards by the name of their file: title and panels."""


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    title, panels = DASHBOARDS[name]
    placed, x, y, row = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > WIDTH:
            x, y, row = 0, y + row, 0
        placed.append(panel.json(number, x, y))
        x, row = x + panel.width, max(row, panel.height)
    return {
        "uid": f"moorage-{name}",
        "title": title,
        "tags": ["moorage"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "type": "datasource",
                    "query": "prometheus",
                    "label": "Data source",
                    "current": {},
                }
            ]
        },
        "links": [
            {"type": "dashboards", "title": "Moorage", "tags": ["moorage"], "asDropdown": False, "keepTime": True}
        ],
        "panels": placed,
    }
