"""Validation of CronJobs, as Kubernetes 1.37 has it.

Schedules are read as the library of cron expressions reads them that Kubernetes uses.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from moorage.core.admission.field_defaults import with_field_defaults
from moorage.core.admission.validation.fields import Fields, inner, known, not_negative, object_in, text
from moorage.core.admission.validation.jobs import validate_job_spec
from moorage.core.apimachinery.field_errors import FieldError, invalid, not_supported, required

_LONGEST_NAME: Final = 52
"""The name of a job has 11 characters more, and a name has 63 at most."""

_POLICIES: Final = ("Allow", "Forbid", "Replace")
_ZONE: Final = "TZ"
_ZONES: Final = ("TZ=", "CRON_TZ=")
_DESCRIPTORS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY: Final = "@every "
_DURATION: Final = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
"""The least and the largest number of each field of a schedule, and the names of numbers."""

_ALL: Final = frozenset({"*", "?"})


class _ScheduleError(ValueError):
    """A schedule cannot be read."""


def validate_cron_job(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the name and the spec of a cron job."""
    spec, name = inner(document, "spec"), text(inner(document, "metadata"), "name")
    too_long = [invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters")]
    return [
        *(too_long if len(name) > _LONGEST_NAME else ()),
        *_template(inner(inner(spec, "jobTemplate"), "spec"), "spec.jobTemplate.spec"),
        *_schedule(text(spec, "schedule"), "spec.schedule"),
        *_time_zone(spec, "spec.timeZone"),
        *not_negative(spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
        *known(text(spec, "concurrencyPolicy"), "spec.concurrencyPolicy", _POLICIES),
    ]


def _template(spec: Fields, path: str) -> Iterator[FieldError]:
    yield from validate_job_spec(_with_pod(spec), path)
    if spec.get("manualSelector"):
        yield not_supported(f"{path}.manualSelector", spec["manualSelector"], ("nil", "false"))
    if (selector := object_in(spec, "selector")) is not None:
        yield invalid(f"{path}.selector", selector, "`selector` will be auto-generated")


def _with_pod(spec: Fields) -> Fields:
    """The spec of a job with a template that has the defaults of fields, also if it leaves out all of it."""
    if inner(inner(spec, "template"), "spec"):
        return spec
    found: Fields = with_field_defaults({"kind": "Job", "spec": {**spec, "template": {"spec": {}}}})["spec"]
    return found


def _schedule(schedule: str, path: str) -> Iterator[FieldError]:
    if not schedule:
        yield required(path)
        return
    try:
        _read(schedule)
    except _ScheduleError as error:
        yield invalid(path, schedule, str(error))
    if _ZONE in schedule:
        yield invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


def _time_zone(spec: Fields, path: str) -> Iterator[FieldError]:
    zone = spec.get("timeZone")
    if not isinstance(zone, str):
        return
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if zone.lower() == "local":
        rule = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid(path, zone, rule)
    if zone != "Local" and not _is_zone(zone):
        yield invalid(path, zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    """Whether there is a time zone of that name. Every name is one where this machine has no time zones."""
    known = _zones()
    return not known or name in known


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _read(schedule: str) -> None:
    """Read a schedule.

    Raises:
        _ScheduleError: it is none.
    """
    if schedule.startswith(_ZONES):
        zone, _, schedule = schedule.partition(" ")
        name = zone.partition("=")[2]
        if not _is_zone(name):
            raise _ScheduleError(f"provided bad location {name}: unknown time zone {name}")
        schedule = schedule.strip()
    if schedule.startswith("@"):
        _read_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise _ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (least, most, names) in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _read_range(part, least, most, names)


def _read_descriptor(descriptor: str) -> None:
    if descriptor in _DESCRIPTORS:
        return
    if not descriptor.startswith(_EVERY):
        raise _ScheduleError(f"unrecognized descriptor: {descriptor}")
    duration = descriptor.removeprefix(_EVERY)
    if duration != "0" and not _DURATION.fullmatch(duration):
        why = "missing unit in" if re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+", duration) else "invalid"
        raise _ScheduleError(f'failed to parse duration {descriptor}: time: {why} duration "{duration}"')


def _read_range(part: str, least: int, most: int, names: Mapping[str, int]) -> None:
    """Read numbers such as `5`, `1-5`, `*/10` or `MON-FRI`."""
    bounds, *steps = part.split("/")
    low, *high = bounds.split("-")
    if low in _ALL:
        start, end = least, most
    else:
        start = end = _number(low, names)
        if len(high) > 1:
            raise _ScheduleError(f"too many hyphens: {part}")
        if high:
            end = _number(high[0], names)
    step = 1
    if steps:
        if len(steps) > 1:
            raise _ScheduleError(f"too many slashes: {part}")
        step = _number(steps[0], {})
        end = most if not high else end
    if start < least:
        raise _ScheduleError(f"beginning of range ({start}) below minimum ({least}): {part}")
    if end > most:
        raise _ScheduleError(f"end of range ({end}) above maximum ({most}): {part}")
    if start > end:
        raise _ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if not step:
        raise _ScheduleError(f"step of range should be a positive number: {part}")


def _number(said: str, names: Mapping[str, int]) -> int:
    if (found := names.get(said.lower())) is not None:
        return found
    if not _NUMBER.fullmatch(said):
        raise _ScheduleError(f'failed to parse int from {said}: strconv.Atoi: parsing "{said}": invalid syntax')
    if (number := int(said)) < 0:
        raise _ScheduleError(f"negative number ({number}) not allowed: {said}")
    return number
