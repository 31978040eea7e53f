"""condition-ingest under limits: what of a flood counts, what it costs, and what is told about the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.component.workers.test_condition_ingest_grants import (
    DISK,
    HERE,
    NOW,
    OTHER,
    PARTITIONS,
    Ingest,
    key_file,
    record,
    report,
    sealed,
    signed,
)

from moorage.decide.conditions import grants as grants_module
from moorage.decide.conditions.grants import is_signed_by
from moorage.runtime.reports.report_limiter import MOST, REFUSED
from moorage.runtime.service import Emit, Input, NeedFresh
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, DEAD_LETTERS

__all__ = ["key_file"]  # a fixture

LIMITED = DISK | {"limits": {"qps": 2, "burst": 5}}
QUIET = DISK | {"source": "probe/quiet", "conditions": ["Fan"]}


def reports(count: int, make: Callable[..., tuple[str, bytes]] | None, **options: Any) -> list[Input]:
    """Reports of one source, each with something new, written at one instant unless `every` says otherwise."""
    at = options.pop("at", NOW)
    every = options.pop("every", timedelta())
    source = options.pop("source", "probe/disk")
    found = []
    for number in range(count):
        event = report(at=at + timedelta(milliseconds=number), message=f"m{number}", **options)
        headers = () if make is None else (make(event, source=source),)
        came = record(event, *headers, source=source, written=at + number * every)
        found.append(replace(came, offset=number))
    return found


def take(ingest: Ingest, batch: list[Input], now: datetime = NOW) -> list[Emit]:
    try:
        return ingest.service.process(ingest.state, batch, now)
    except NeedFresh:
        return ingest.service.process(ingest.state, batch, now, fresh=True)


def counted(emits: list[Emit]) -> int:
    return sum(1 for emit in emits if emit.topic is CONDITIONS)


def letters(emits: list[Emit]) -> list[DeadLettered]:
    return [emit.event for emit in emits if isinstance(emit.event, DeadLettered)]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list with an entry for each signature that is checked."""
    found: list[str] = []

    def check(pem: str, signature: bytes, text: bytes) -> bool:
        found.append(pem)
        return is_signed_by(pem, signature, text)

    monkeypatch.setattr(grants_module, "is_signed_by", check)
    return found


def test_a_flood_counts_up_to_its_limit_and_costs_no_more_signatures(key_file: str, checks: list[str]) -> None:
    ingest = Ingest(key_file, LIMITED)
    emits = take(ingest, reports(500, signed))
    assert counted(emits) == 5
    assert len(checks) <= 2 * 5  # once more after tables were read
    (letter,) = letters(emits)
    assert letter.reason is RefusalReason.TOO_MANY_REQUESTS
    assert (letter.field, letter.value, letter.count) == ("source", "probe/disk", 1)
    assert letter.rule == "must report at most 2 times per second, and 5 times at once, by the ProbeGrant 'g0'"
    later = NOW + timedelta(seconds=1)
    emits = take(ingest, reports(100, signed, at=later), later)
    assert counted(emits) == 2
    assert letters(emits) == []


def test_what_is_dropped_is_told_once_a_minute_with_its_number(key_file: str) -> None:
    ingest = Ingest(key_file, LIMITED)
    told = []
    now = NOW
    for second in range(130):
        now = NOW + timedelta(seconds=second)
        told += [(second, letter.count) for letter in letters(take(ingest, reports(50, signed, at=now), now))]
        if (due := ingest.service.next_wake(ingest.state)) is not None and due <= now:
            told += [(second, letter.count) for letter in letters(ingest.service.wake(ingest.state, now))]
    assert [second for second, _ in told] == [0, 60, 120]
    over = now + timedelta(minutes=2)
    (last,) = letters(ingest.service.wake(ingest.state, over))
    assert sum(count for _, count in told) + last.count == 130 * 50 - 5 - 129 * 2
    assert last.original.count("m49") == 1  # the last of those that it stands for
    # Nothing more is told, or waited for, when nothing more comes.
    assert letters(ingest.service.wake(ingest.state, over + timedelta(minutes=1))) == []
    assert ingest.state.limiter.next is None


def test_others_are_not_limited_by_a_flood(key_file: str) -> None:
    ingest = Ingest(key_file, LIMITED, QUIET)
    flood = reports(300, signed)
    quiet = reports(10, signed, source="probe/quiet", condition="Fan")
    mixed = list(itertools.chain(flood[:150], quiet, flood[150:]))
    emits = take(ingest, mixed)
    assert [emit.key for emit in emits if emit.key.endswith("Fan")] == ["Node/n1|Fan"] * 10
    assert counted(emits) == 15


def test_who_forges_a_source_does_not_use_up_its_limit(key_file: str, checks: list[str]) -> None:
    ingest = Ingest(key_file, LIMITED)

    def forged(event: Any, **options: Any) -> tuple[str, bytes]:
        return signed(event, OTHER, **options)

    emits = take(ingest, [*reports(60, forged), *reports(4, signed), *reports(1000, forged)])
    assert counted(emits) == 4
    refused = [letter for letter in letters(emits) if letter.reason is RefusalReason.FORBIDDEN]
    assert len(refused) == REFUSED.burst  # further ones are neither checked nor told one by one
    assert len(checks) <= 2 * (REFUSED.burst + 4)
    (rest,) = (letter for letter in letters(emits) if letter.reason is RefusalReason.TOO_MANY_REQUESTS)
    assert "refused" in rest.rule


def test_unsigned_reports_keep_nobody_from_being_heard(key_file: str) -> None:
    ingest = Ingest(key_file, LIMITED)
    through_gateway = reports(5, lambda event, **_: sealed(key_file, event), at=NOW + timedelta(seconds=1))
    emits = take(ingest, [*reports(1000, None), *reports(5, signed), *through_gateway])
    assert counted(emits) == 10
    assert len(letters(emits)) == REFUSED.burst + 1


def test_who_was_refused_is_heard_as_soon_as_the_grants_change(key_file: str) -> None:
    ingest = Ingest(key_file, DISK | {"keys": []})
    emits = take(ingest, reports(300, signed))
    assert counted(emits) == 0
    ingest.grant("g1", DISK)
    assert counted(take(ingest, reports(3, signed, at=NOW + timedelta(seconds=1)))) == 3


def test_what_is_dropped_asks_for_no_tables(key_file: str) -> None:
    ingest = Ingest(key_file, DISK | {"keys": []})
    take(ingest, reports(300, signed))
    emits = ingest.service.process(ingest.state, reports(300, signed), NOW)  # no NeedFresh
    assert emits == []


def test_reports_are_counted_once_if_tables_have_to_be_read_first(key_file: str) -> None:
    ingest = Ingest(key_file, LIMITED)
    batch = reports(5, signed)
    for _ in range(3):
        with pytest.raises(NeedFresh):
            ingest.service.process(ingest.state, batch, NOW)
    assert counted(ingest.service.process(ingest.state, batch, NOW, fresh=True)) == 5


def test_reports_that_have_waited_count_by_when_they_were_written(key_file: str) -> None:
    """The service was down for two minutes. What the source wrote meanwhile was within its limit."""
    ingest = Ingest(key_file, LIMITED)
    began = NOW - timedelta(minutes=2)
    assert counted(take(ingest, reports(240, signed, at=began, every=timedelta(seconds=0.5)))) == 240


def test_after_a_restart_no_less_is_let_through(key_file: str) -> None:
    ingest = Ingest(key_file, LIMITED)
    assert counted(take(ingest, reports(100, signed))) == 5
    ingest.state = ingest.fresh()
    assert counted(take(ingest, reports(100, signed))) == 5


def test_a_report_that_is_too_large_for_its_grant_is_refused(key_file: str) -> None:
    ingest = Ingest(key_file, DISK | {"limits": {"maxBytes": 300}})
    (letter,) = letters(take(ingest, reports(1, signed, reason="r" * 300)))
    assert letter.reason is RefusalReason.TOO_LARGE
    assert letter.rule == "must have at most 300 bytes, by the ProbeGrant 'g0'"
    assert counted(take(ingest, reports(1, signed, at=NOW + timedelta(seconds=1)))) == 1


def test_one_of_several_grants_has_to_let_a_report_through(key_file: str) -> None:
    ingest = Ingest(key_file, LIMITED, DISK | {"limits": {"qps": 1, "burst": 4}})
    assert counted(take(ingest, reports(100, signed))) == 9
    ingest.grant("g2", DISK)
    assert counted(take(ingest, reports(100, signed, at=NOW + timedelta(milliseconds=200)))) == 100


def limited_by_default(key: str, *grants: Any) -> Ingest:
    ingest = Ingest(key, *grants)
    settings = Settings(partitions=PARTITIONS, service_account_signing_key_file=key, report_qps=1, report_burst=3)
    ingest.service = condition_ingest.service(settings)
    ingest.view = ingest.service.new_globals()
    for number, spec in enumerate(grants):
        ingest.grant(f"g{number}", spec)
    ingest.state = ingest.fresh()
    return ingest


def test_the_default_limits_every_source_to_which_no_grant_sets_a_limit(key_file: str) -> None:
    ingest = limited_by_default(key_file)
    emits = take(ingest, [*reports(50, None), *reports(50, None, source="probe/other", condition="Fan")])
    assert counted(emits) == 6
    assert len(letters(emits)) == 2
    # What a gateway has let through was limited there.
    assert (
        counted(take(ingest, reports(20, lambda event, **_: sealed(key_file, event), at=NOW + timedelta(seconds=0.1))))
        == 20
    )
    assert counted(take(limited_by_default(key_file, DISK), reports(50, signed))) == 3
    assert counted(take(limited_by_default(key_file, LIMITED), reports(50, signed))) == 5


def test_sources_without_end_take_little_memory_and_have_few_letters(key_file: str) -> None:
    ingest = limited_by_default(key_file)
    emits: list[Emit] = []
    for number in range(2 * MOST):
        emits += take(ingest, reports(5, None, source=f"probe/{number}"))
    assert len(letters(emits)) <= MOST + 1
    assert counted(emits) <= 3 * (MOST + 1)


def test_a_flood_to_the_wrong_partition_is_not_forwarded_beyond_its_limit(key_file: str) -> None:
    ingest = Ingest(key_file, LIMITED)
    ingest.state = ingest.fresh((HERE + 1) % PARTITIONS)
    emits = take(ingest, reports(100, signed))
    assert [emit.topic for emit in emits].count(CONDITION_REPORTS) == 5
    assert [emit.topic for emit in emits].count(DEAD_LETTERS) == 1
