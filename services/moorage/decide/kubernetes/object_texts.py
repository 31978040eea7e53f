"""Parts of objects as texts, as the command line, the API's tables and the console show them.

An object is JSON, and any part of it may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from moorage.decide.kubernetes.durations import human
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.times import parse_time

Object = Mapping[str, Any]

UNREPORTED: Final = "Unreported"
"""The status of a target whose condition `Ready` was never reported. Such a target counts as ready."""

_NOTHING: Final = "<none>"

TARGET_STATES: Final = ("Ready", "NotReady", "Unknown", UNREPORTED)
"""The states of targets that `readiness` returns. Cordoned targets count among them as well."""

_READINESS: Final[Mapping[str, str]] = {"True": "Ready", "False": "NotReady", "Unknown": "Unknown"}
"""The readiness of a target by the status of its condition."""


def readiness(status: str) -> str:
    """Return `Ready`, `NotReady`, `Unknown` or `Unreported` for the status of the condition of a target's health.

    Args:
        status: the status of the condition. Empty if the target has no such condition.
    """
    return _READINESS.get(status, UNREPORTED)


def condition_status(found: Object, kind: str) -> str:
    """Return the status of the condition of a type. Empty if the object has no such condition."""
    conditions = at(found, "status", "conditions") or ()
    return next((str(one.get("status", "")) for one in conditions if one.get("type") == kind), "")


def node_status(found: Object) -> str:
    """Return `Ready`, `NotReady`, `Unknown` or `Unreported`, with `SchedulingDisabled` if the node is cordoned.

    kubectl also shows `Unknown` for a node without the condition `Ready`. Here `Unknown` means that a source has fallen
    silent. Such a node is tainted, and a node that was never reported is not.
    """
    ready = readiness(condition_status(found, "Ready"))
    return f"{ready},SchedulingDisabled" if at(found, "spec", "unschedulable") else ready


def unreported(found: Object) -> str:
    """Return the meaning of a missing condition `Ready`. Empty if the target has the condition."""
    return "" if condition_status(found, "Ready") else "no probe has reported Ready, so it counts as ready"


def zone_name(found: Object) -> str:
    """Return the zone of a node, `region/zone`, from its labels. The older labels also count."""
    labels = at(found, "metadata", "labels") or {}
    return "/".join(
        str(labels.get(f"topology.kubernetes.io/{part}") or labels.get(f"failure-domain.beta.kubernetes.io/{part}", ""))
        for part in ("region", "zone")
    )


def zone_state(found: Object) -> str:
    """Return the state of a zone, and whether it is stopped because every zone is fully disrupted."""
    state = str(at(found, "status", "state") or "Normal")
    return f"{state},Stopped" if at(found, "status", "stopped") else state


def taint_text(taint: Object) -> str:
    """Return a taint as it is written on the command line: `key=value:Effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def toleration_text(toleration: Object) -> str:
    """Return a toleration in one line, as kubectl shows it: `key=value:Effect op=Exists for 300s`."""
    key, value = str(toleration.get("key") or ""), str(toleration.get("value") or "")
    effect, operator = toleration.get("effect"), toleration.get("operator")
    seconds = toleration.get("tolerationSeconds")
    text = key + (f"={value}" if value else "") + (f":{effect}" if effect else "")
    if operator and (operator != "Equal" or not value):
        text += f" op={operator}"
    return (text + (f" for {seconds}s" if seconds is not None else "")).strip()


def schedule_text(found: Object) -> str:
    """Return the schedule of a guard: `0 22 * * 5 Europe/Berlin for 8h`. Empty if it has none."""
    cron, duration, zone = (at(found, "spec", "schedule", field) for field in ("cron", "duration", "timeZone"))
    return "" if cron is None else f"{cron} {zone or 'UTC'} for {duration}"


def reasons_text(found: Object) -> str:
    """Return the reasons of the evictions to which a guard applies. Empty if it applies to all."""
    return ",".join(at(found, "spec", "reasons") or ())


def scope_text(found: Object) -> str:
    """Return the scope of a budget or a pause: `zones=eu/eu-1;namespaces=shop`. Empty for the fleet."""
    parts = []
    scope = at(found, "spec", "scope")
    for field, value in scope.items() if isinstance(scope, Mapping) else ():
        if isinstance(value, list) and value:
            parts.append(f"{field}={','.join(map(str, value))}")
        elif isinstance(value, Mapping):
            parts.append("<labels>")
    return ";".join(parts)


def why_evicted(status: Object) -> str:
    """Return the reason of an eviction's state, with the report of its deployer, or that none has arrived."""
    why = str(status.get("message") or status.get("reason") or "")
    if status.get("state") != "Requested" or status.get("acknowledged") or not status.get("deployer"):
        return why
    if escalated := status.get("escalated"):
        said = f"{escalated['source']}: {escalated['reason']}"
        return f"{why}; {said}: {escalated['message']}" if escalated.get("message") else f"{why}; {said}"
    return f"{why}; waits for {status['deployer']}"


def last_seen(event: Object) -> str:
    """Return when an Event, in the form of the core group, happened last, in RFC 3339. Empty if it has no time."""
    return str(at(event, "series", "lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


def until(deadline: str | None, now: datetime) -> str:
    """Return how long until a deadline: `in 5m`, and `due` when it has passed. Empty without one."""
    if not deadline:
        return ""
    left = (parse_time(deadline) - now).total_seconds()
    return f"in {human(left)}" if left > 0 else "due"


def audited_user(event: Object) -> str:
    """Return the user of an audit event: `ann as bob` if the request was made on behalf of another."""
    sender, acting = at(event, "user", "username"), at(event, "impersonatedUser", "username")
    return f"{sender} as {acting}" if acting else str(sender or _NOTHING)


def audited_object(event: Object) -> str:
    """Return the object of an audit event as kubectl names it: `pods/eviction shop/web`."""
    ref = at(event, "objectRef")
    if not ref:
        return str(event.get("requestURI") or _NOTHING)
    below = f"/{ref['subresource']}" if ref.get("subresource") else ""
    place = "/".join(part for part in (ref.get("namespace"), ref.get("name")) if part)
    cluster = f" in {ref['cluster']}" if ref.get("cluster") else ""
    return f"{ref.get('resource', '')}{below} {place}".rstrip() + cluster


def audited_outcome(event: Object) -> str:
    """Return the outcome of an audit event: `Success`, `Forbidden` or `Unauthorized`."""
    return str(at(event, "responseStatus", "reason") or at(event, "responseStatus", "status") or _NOTHING)
