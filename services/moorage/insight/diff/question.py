"""Requests for simulations over HTTP: requests of the API that change something, and targets that fail.

The same requests make the change in the live fleet. So what is simulated is what is done.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from moorage.apiserver.machinery.api_errors import field_errors
from moorage.insight.copy import run
from moorage.insight.copy.gateway import ADDRESS, Edge
from moorage.insight.copy.snapshot import COMPACTED, Snapshot, topics_of
from moorage.insight.copy.stack import MemoryStack
from moorage.insight.diff import changes, report
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.refs import TargetRef
from moorage_schemas.topics import TOPICS, Topic

MOST_WRITES: Final = 1_000
MOST_TARGETS: Final = 1_000
LONGEST_SECONDS: Final = 86_400.0

_AT_ONCE: Final = 1_000  # reports in one request
_FAILED: Final = 400
_TOO_MANY: Final = 429
_EVICTION: Final = "/eviction"
_GC_THRESHOLDS: Final = (50_000, 20, 100)  # seldom, because a copy is hundreds of thousands of objects


class SimulationError(ValueError):
    """A change cannot be simulated: it is wrong, or the gateway would refuse it."""


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class SimulatedWrite(_Asked):
    """One request of the API."""

    method: str = Field(pattern="^(POST|PUT|PATCH|DELETE)$")
    path: str = Field(pattern="^/(api|apis)/", max_length=2_000)
    body: Any = None
    content_type: str = "application/json"


class SimulationQuestion(_Asked):
    """The changes to simulate."""

    writes: tuple[SimulatedWrite, ...] = Field(default=(), max_length=MOST_WRITES)
    failing: tuple[str, ...] = Field(default=(), max_length=MOST_TARGETS)
    """Targets that fail, as `Node/n1`."""

    status: ConditionStatus = ConditionStatus.UNKNOWN
    """How they fail: `Unknown`, as if their reports stopped, or `False`."""

    seconds: float = Field(default=3_600.0, gt=0, le=LONGEST_SECONDS)
    """How much time passes in the copy."""


def parse(document: Any) -> SimulationQuestion:
    """Read a question. Raises SimulationError, which names the field, the value and the rule."""
    try:
        question = SimulationQuestion.model_validate(document)
    except ValidationError as error:
        raise SimulationError("; ".join(map(str, field_errors(error)))) from None
    if not question.writes and not question.failing:
        raise SimulationError("writes: invalid value []: must have a change, if no target fails")
    if question.status is ConditionStatus.TRUE:
        raise SimulationError("status: invalid value 'True': must be Unknown or False")
    _targets(question.failing)
    return question


def topics_read(settings: Settings) -> tuple[Topic, ...]:
    """Return the topics that a copy is made of."""
    chosen = {*COMPACTED, *topics_of(run.services(settings))}
    return tuple(topic for topic in TOPICS if topic in chosen)


def answer(settings: Settings, question: SimulationQuestion) -> dict[str, Any]:
    """Read a copy, run it without and with the change, and return the differences.

    This takes seconds or more of processor time, and the memory of a copy.

    Raises:
        SimulationError: the gateway would refuse the change.
        SnapshotError: the topics cannot be copied.
        RestlessError: the copy does not come to rest.
        KafkaError: Kafka does not answer.
        OSError: Kafka cannot be reached.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    # Reports in the copy come from its own gateway, which seals nothing.
    settings = settings.model_copy(update={"service_account_signing_key_file": ""})
    return of_copy(asyncio.run(Snapshot.load(settings, services=run.services(settings))), settings, question)


def of_copy(snapshot: Snapshot, settings: Settings, question: SimulationQuestion) -> dict[str, Any]:
    """Run a copy without and with the change, and return the differences.

    Raises:
        SimulationError: the gateway would refuse the change.
        RestlessError: the copy does not come to rest.
    """
    settings = run.in_force(snapshot, settings)
    found = run.simulate(
        snapshot, settings, lambda edge, stack: _make(question, edge, stack), timedelta(seconds=question.seconds)
    )
    return {**report.document(found), "settings": {}}


def _make(question: SimulationQuestion, edge: Edge, stack: MemoryStack) -> Sequence[str]:
    """Make the change in a copy, and return in words what was done."""
    said = []
    with httpx.Client(transport=edge.transport, base_url=ADDRESS) as client:
        for write in question.writes:
            found = client.request(
                write.method,
                write.path,
                json=write.body,
                headers={"content-type": write.content_type} if write.body is not None else {},
            )
            if found.status_code == _TOO_MANY and write.path.endswith(_EVICTION):
                said.append(f"{_called(write.path)} stays: {_message(found)}")
            elif found.status_code >= _FAILED:
                raise SimulationError(_message(found))
            else:
                said.append(f"{write.method.lower()} {_called(write.path)}")
        failing = _targets(question.failing)
        events = changes.outage(stack, failing, question.status) if failing else []
        for begin in range(0, len(events), _AT_ONCE):
            batch = events[begin : begin + _AT_ONCE]
            found = client.post(
                "/v1/conditions", json=batch, headers={"content-type": "application/cloudevents-batch+json"}
            )
            for item in found.json().get("items") or ():
                if item.get("status"):
                    raise SimulationError(str(item["status"].get("message", "a report was refused")))
        said += [f"{target.key} fails: {question.status.value}" for target in failing]
    return said


def _message(found: httpx.Response) -> str:
    try:
        document: Mapping[str, Any] = found.json()
    except ValueError:
        return f"the gateway answered {found.status_code}"
    return str(document.get("message") or f"the gateway answered {found.status_code}")


def _called(path: str) -> str:
    """Return the object of a path: `nodes/n1`, `pods/web-1/eviction`."""
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    return "/".join(parts[2:] if parts[0] == "namespaces" and len(parts) > 2 else parts)  # noqa: PLR2004 - namespace


def _targets(texts: Sequence[str]) -> list[TargetRef]:
    found = []
    for text in texts:
        try:
            found.append(TargetRef.parse(text))
        except ValueError as error:
            raise SimulationError(f"failing: invalid value {text[:253]!r}: must be Kind/name: {error}") from None
    return found
