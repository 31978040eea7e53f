"""Configurations of node-problem-detector's custom plugins, read as they are.

Its rules find problems, so the status of a condition is True when a check fails. What a configuration has and Moorage
has not is a warning that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from moorage.cli.errors import CliError
from moorage.cli.probes.commands import run_command
from moorage.cli.probes.results import CheckOutcome, CheckResult, Meaning
from moorage.cli.probes.running import Check, Rule
from moorage.decide.kubernetes.durations import seconds_of
from moorage_schemas.condition import ConditionStatus

_TOP: Final = frozenset({"plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"})
_GLOBAL: Final = frozenset(
    {
        *("invoke_interval", "timeout", "max_output_length", "concurrency"),
        *("enable_message_change_based_condition_update", "skip_initial_status"),
    }
)
_CONDITION: Final = frozenset({"type", "reason", "message"})
_RULE: Final = frozenset({"type", "condition", "reason", "path", "args", "timeout"})


@dataclass(frozen=True, slots=True)
class PluginChecks:
    """The checks of a configuration."""

    source: str
    checks: tuple[Check, ...]
    every: float
    """Seconds between two runs of a check."""

    concurrency: int
    by_message: bool
    warnings: tuple[str, ...]


def read_plugins(file: Path, on_event: Callable[[str, str], None]) -> PluginChecks:
    """Read a configuration.

    Args:
        file: the file. Relative paths of its checks begin from the working directory, as with node-problem-detector.
        on_event: called with the reason and the message of a temporary problem.

    Raises:
        CliError: it cannot be read, or is no such configuration. The message names the field.
    """
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except ValueError as error:
        raise CliError(f"{file}: not JSON: {error}") from None
    return _Reading(file, on_event).plugins(found)


class _Reading:
    """Reads one configuration, and notes what is not carried."""

    def __init__(self, file: Path, on_event: Callable[[str, str], None]) -> None:
        self._file = file
        self._on_event = on_event
        self._warnings: list[str] = []

    def plugins(self, found: Any) -> PluginChecks:
        top = self._object("", found, _TOP)
        if top.get("plugin") != "custom":
            raise self._error("plugin", top.get("plugin"), "expected custom; other plugins read logs of the system")
        if top.get("metricsReporting"):
            self._warn("metricsReporting", "Moorage's own metrics have the conditions")
        given = self._object("pluginConfig", top.get("pluginConfig") or {}, _GLOBAL)
        if given.get("skip_initial_status") is False:
            self._warn("pluginConfig.skip_initial_status", "nothing is reported before the first check")
        longest = self._seconds("pluginConfig.timeout", given.get("timeout"), 5.0)
        output = self._number("pluginConfig.max_output_length", given.get("max_output_length"), 80)
        conditions = {one["type"]: one for one in self._conditions(top.get("conditions") or [])}
        rules = top.get("rules")
        if not isinstance(rules, list) or not rules:
            raise self._error("rules", rules, "expected a list with at least one rule")
        checks = [self._rule(f"rules[{place}]", one, conditions, longest, output) for place, one in enumerate(rules)]
        return PluginChecks(
            self._text("source", top.get("source")),
            tuple(checks),
            self._seconds("pluginConfig.invoke_interval", given.get("invoke_interval"), 30.0),
            self._number("pluginConfig.concurrency", given.get("concurrency"), 3),
            bool(given.get("enable_message_change_based_condition_update")),
            tuple(self._warnings),
        )

    def _conditions(self, found: Any) -> list[dict[str, str]]:
        if not isinstance(found, list):
            raise self._error("conditions", found, "expected a list")
        read = []
        for place, one in enumerate(found):
            where = f"conditions[{place}]"
            known = self._object(where, one, _CONDITION)
            kind = self._text(f"{where}.type", known.get("type"))
            read.append({"type": kind, "reason": known.get("reason") or "", "message": known.get("message") or ""})
        return read

    def _rule(
        self, where: str, found: Any, conditions: Mapping[str, Mapping[str, str]], longest: float, output: int
    ) -> Check:
        one = self._object(where, found, _RULE)
        reason = self._text(f"{where}.reason", one.get("reason"))
        args = one.get("args") or []
        if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
            raise self._error(f"{where}.args", args, "expected a list of texts")
        timeout = self._seconds(f"{where}.timeout", one.get("timeout"), longest)
        if timeout > longest:
            raise self._error(
                f"{where}.timeout", one.get("timeout"), f"must be at most that of pluginConfig, {longest:g} s"
            )
        words = [self._text(f"{where}.path", one.get("path")), *args]
        run = partial(run_command, words, timeout=timeout, max_output=output)
        if one.get("type") == "temporary":
            self._warn(f"{where}.type", "temporary problems are printed, and are no events")
            return Check(self._printing(run, reason), ())
        if one.get("type") != "permanent":
            raise self._error(f"{where}.type", one.get("type"), "expected temporary or permanent")
        kind = self._text(f"{where}.condition", one.get("condition"))
        if kind not in conditions:
            raise self._error(f"{where}.condition", kind, "expected the type of one of conditions")
        default = conditions[kind]
        meaning = Meaning(
            kind,
            ConditionStatus.FALSE,
            ok_reason=default["reason"] or "CheckPassed",
            ok_message=default["message"],
            problem_reason=reason,
        )
        return Check(run, (Rule(meaning),))

    def _printing(self, run: Callable[[], Any], reason: str) -> Callable[[], Any]:
        async def printing() -> CheckResult:
            result: CheckResult = await run()
            if result.outcome is CheckOutcome.PROBLEM:
                self._on_event(reason, result.message)
            return result

        return printing

    def _object(self, where: str, found: Any, known: frozenset[str]) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise self._error(where or "the file", found, "expected a JSON object")
        for name in sorted(found.keys() - known):
            self._warn(f"{where}.{name}".lstrip("."), "not a field of a custom plugin")
        return found

    def _text(self, where: str, found: Any) -> str:
        if not isinstance(found, str) or not found:
            raise self._error(where, found, "expected a text")
        return found

    def _number(self, where: str, found: Any, default: int) -> int:
        if found is None:
            return default
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise self._error(where, found, "expected a number, at least 1")
        return found

    def _seconds(self, where: str, found: Any, default: float) -> float:
        if found is None:
            return default
        seconds = seconds_of(found) if isinstance(found, str) else None
        if not seconds or seconds < 0:
            raise self._error(where, found, "expected a duration such as 30s")
        return float(seconds)

    def _error(self, where: str, value: object, rule: str) -> CliError:
        return CliError(f"{self._file}: {where}: invalid value {value!r}: {rule}")

    def _warn(self, where: str, why: str) -> None:
        self._warnings.append(f"{self._file}: {where} has no effect: {why}")
