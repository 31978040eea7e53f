"""Sends condition reports to the gateway: the conditions of targets, and the health of the work on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog
from typing_extensions import override

from moorage.bridges.engine.batches import BatchSender, never
from moorage.bridges.engine.gateway_client import GatewayClient
from moorage.bridges.engine.metrics import REPORTED
from moorage.runtime.process.clock import Clock
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import event_id
from moorage_schemas.refs import TargetRef, WorkloadRef

_log = structlog.get_logger(__name__)

_REFUSED: Final = "Refused"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_PACE: Final = 0.5
"""Seconds between two batches of reports on work. A pod changes several times while it starts, and each batch costs
every service a transaction that what is urgent has to wait for."""

_LONGEST_TEXT: Final = 1024
_TICK: Final = timedelta(microseconds=1)


class Report(NamedTuple):
    """A report of one condition, to send."""

    target: TargetRef
    type: str
    status: str
    reason: str = ""
    message: str = ""
    workload: WorkloadRef | None = None
    workload_uid: str = ""
    binding_generation: int = 0

    @classmethod
    def of(
        cls,
        target: TargetRef,
        kind: str,
        status: str,
        reason: str,
        message: str,
        *,
        workload: WorkloadRef | None = None,
        workload_uid: str = "",
        binding_generation: int = 0,
    ) -> Report:
        """Return a report as it is sent: a text that is too long is cut, so that the topics have the same."""
        reason, message = reason[:_LONGEST_TEXT], message[:_LONGEST_TEXT]
        return cls(target, kind, status, reason, message, workload, workload_uid, binding_generation)


class Reports(BatchSender):
    """A sender of the reports that differ from those sent last.

    Args:
        present: returns what is to be reported under a key now. None for nothing.
        is_known: returns whether the topics have a report. It is called for what this process has not sent.
        is_urgent: returns whether a report goes before others. Those on targets do: all of their workloads may have to
            leave.
    """

    def __init__(
        self,
        source: str,
        gateway: GatewayClient,
        clock: Clock,
        present: Callable[[str], Report | None],
        is_known: Callable[[str, Report], bool],
        *,
        is_urgent: Callable[[str], bool] = never,
    ) -> None:
        super().__init__("reports", is_urgent, pace=_PACE)
        self._source = source
        self._gateway = gateway
        self._clock = clock
        self._present = present
        self._is_known = is_known
        self._sent: dict[str, Report] = {}
        self._pauses: dict[str, float] = {}
        self._last = datetime.fromtimestamp(0, UTC)

    def sent(self, key: str) -> Report | None:
        """Return the last report that this process has sent under a key."""
        return self._sent.get(key)

    def forget_all(self) -> None:
        """Compare with the topics again, since another process may have reported meanwhile."""
        self._sent.clear()

    def forget_ended(self) -> None:
        """Forget reports that are no longer needed, such as how work was on a node that it has left."""
        for key in [one for one in self._sent if self._present(one) is None]:
            self.forget(key)

    def forget(self, key: str) -> None:
        """Send the report of a key again when it is marked, whether it has changed or not."""
        self._sent.pop(key, None)
        self._pauses.pop(key, None)

    @override
    async def _send(self, keys: Sequence[str]) -> None:
        reports: list[tuple[str, Report]] = []
        for key in keys:
            found = self._present(key)
            if found is None:
                self.forget(key)
            elif (sent := self._sent.get(key)) != found and (sent is not None or not self._is_known(key, found)):
                reports.append((key, found))
        if not reports:
            return
        # Reports of one condition are ordered by this time, also if the clock stands still or is set back.
        self._last = max(self._clock.now(), self._last + _TICK)
        outcomes = await self._gateway.report([self._event(one) for _, one in reports])
        for (key, report), outcome in zip(reports, outcomes, strict=True):
            name = str(outcome.get("outcome"))
            REPORTED.labels(name).inc()
            if name != _REFUSED:
                self._sent[key] = report
                self._pauses.pop(key, None)
                continue
            status = outcome.get("status") or {}
            details = status.get("details") or {}
            pause = self._pauses.get(key, _FIRST_PAUSE)
            _log.log(30 if pause > _FIRST_PAUSE else 20, "bridge.report_refused", key=key, why=status.get("message"))
            self._pauses[key] = min(pause * 2, _LONGEST_PAUSE)
            self.mark_later([key], max(pause, float(details.get("retryAfterSeconds") or 0)))

    def _event(self, report: Report) -> dict[str, Any]:
        at = self._last
        data = ConditionReported(
            target=report.target,
            type=report.type,
            status=report.status,
            reason=report.reason,
            message=report.message,
            observed_time=at,
            workload=report.workload,
            workload_uid=report.workload_uid,
            binding_generation=report.binding_generation,
        )
        workload = report.workload.key if report.workload is not None else ""
        return {
            "specversion": "1.0",
            "type": ConditionReported.event_type,
            "source": self._source,
            "id": event_id(self._source, report.target.key, workload, report.type, at, report.status),
            "time": at.isoformat(),
            "data": data.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
