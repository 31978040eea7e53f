"""`moorage deadletters` with the gateway's own application in memory."""

from __future__ import annotations

import asyncio
import functools
import json
from pathlib import Path
from typing import Any

import pytest
from tests.component.cli.fake_gateway import invoke, said
from tests.component.gateway.double import Fixture, node
from tests.component.gateway.memory_records import START
from tests.component.gateway.test_dead_letters import letter, reports
from tests.support.in_memory import transport_to

from moorage.cli.api.client import Client
from moorage.cli.commands import dead_letters
from moorage.cli.commands.simulate_request import HttpxTransport
from moorage_schemas.dead_letter import RefusalReason


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fixture:
    """A gateway that the command line uses, with the node `n1`."""
    gateway = Fixture()

    asyncio.run(gateway.ok("POST", "/api/v1/nodes", node("n1")))
    transport = HttpxTransport(transport_to(gateway.app))
    monkeypatch.setattr("moorage.cli.api.endpoints.Client", functools.partial(Client, transport=transport))
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("MOORAGE_SERVER", "http://127.0.0.1:8080")
    monkeypatch.delenv("MOORAGE_BOOTSTRAP_SERVERS", raising=False)
    return gateway


def run(*words: str) -> tuple[int, str, str]:
    return said(invoke("deadletters", *words))


def names(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_the_newest_are_listed(fleet: Fixture) -> None:
    for number in range(4):
        fleet.letters.add(number % 2, letter(), START + number)
    code, out, error = run("list", "--limit", "3")
    assert (code, names(out)) == (0, ["1-1", "0-1", "1-0"])
    assert out.splitlines()[0].split() == ["NAME", "SERVICE", "REASON", "TOPIC", "KEY", "SOURCE", "AGE"]
    assert "There are more than these 3." in error
    assert names(run("list", "--limit", "0")[1]) == ["1-1", "0-1", "1-0", "0-0"]
    assert names(said(invoke("get", "deadletters"))[1]) == ["1-1", "0-1", "1-0", "0-0"]


def test_a_list_goes_on_where_a_part_of_it_ends(fleet: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "CHUNK", 2)
    for number in range(5):
        fleet.letters.add(0, letter(), START + number)
    assert len(names(run("list", "--limit", "0")[1])) == 5
    assert len(names(run("list", "--limit", "5")[1])) == 5


def test_options_choose(fleet: Fixture) -> None:
    fleet.letters.add(0, letter(RefusalReason.FORBIDDEN, key="a,b=c"), START)
    fleet.letters.add(1, letter(source="probe/disk"), START)
    for words, found in (
        (("--reason", "Forbidden"), ["0-0"]),
        (("--key", "a,b=c"), ["0-0"]),
        (("--source", "probe/disk", "--topic", "condition-reports"), ["1-0"]),
        (("--service", "placement"), []),
        (("--since", "2026-01-01T13:00:00Z"), []),
    ):
        assert names(run("list", *words)[1]) == found, words
    code, _, error = run("list", "--since", "2999-01-01T00:00:00Z")
    assert code == 2
    assert "must not be in the future" in error


def test_letters_in_other_forms(fleet: Fixture) -> None:
    fleet.letters.add(0, letter())
    assert run("list", "-o", "name")[1] == "deadletter.moorage.io/0-0\n"
    found: Any = json.loads(run("list", "-o", "json")[1])
    assert [one["kind"] for one in found["items"]] == ["DeadLetter"]
    code, out, _ = run("describe", "deadletter.moorage.io/0-0")
    assert code == 0
    assert "Reason:         UnknownTarget" in out
    assert "record: condition-reports/0@7" in out
    assert "DiskSlow" in out
    code, _, error = run("describe", "0-9")
    assert code == 1
    assert 'deadletters.moorage.io "0-9" not found' in error


def test_named_letters_are_sent_again(fleet: Fixture) -> None:
    for number in range(2):
        fleet.letters.add(0, letter(identity=f"r{number}"), START + number)
    code, out, error = run("replay", "0-1", "deadletter.moorage.io/0-0")
    assert code == 0, error
    assert out == "deadletter.moorage.io/0-1 sent again\ndeadletter.moorage.io/0-0 sent again\n"
    assert [write.meta.id for write in fleet.log.reported if write.topic.short == "condition-reports"] == ["r1", "r0"]
    assert "before Node/n1 was declared" in error


def test_chosen_letters_are_sent_again_the_oldest_first(fleet: Fixture) -> None:
    fleet.letters.add(0, letter(identity="r0"), START)
    fleet.letters.add(1, letter(identity="r1", name="gone"), START + 1)
    fleet.letters.add(1, letter(identity="r2"), START + 2)
    fleet.letters.add(1, letter(RefusalReason.UNDELIVERED, topic="bindings"), START + 3)
    code, out, error = run("replay", "--since", "2026-01-01T12:00:00Z", "--yes")
    assert code == 1, "one is refused again"
    assert out == "deadletter.moorage.io/0-0 sent again\ndeadletter.moorage.io/1-1 sent again\n"
    assert "error: deadletter.moorage.io/1-0:" in error
    assert "must be a declared target" in error
    assert len(reports(fleet)) == 2


def test_nothing_is_sent_without_an_answer_or_in_a_dry_run(fleet: Fixture) -> None:
    fleet.letters.add(0, letter())
    code, _, error = run("replay", "--reason", "UnknownTarget")
    assert code == 1
    assert "not a terminal: pass --yes to send 1 reports again" in error
    assert run("replay", "--reason", "UnknownTarget", "--dry-run=client")[1] == (
        "deadletter.moorage.io/0-0 would be sent again (dry run)\n"
    )
    assert run("replay", "0-0", "--dry-run=server")[1] == "deadletter.moorage.io/0-0 sent again (server dry run)\n"
    assert fleet.log.reported == []


def test_a_replay_without_letters_or_with_both_is_refused(fleet: Fixture) -> None:
    for words in ((), ("0-0", "--reason", "Forbidden")):
        code, _, error = run("replay", *words)
        assert code == 2
        assert "name the letters, or select them" in error
    assert run("replay", "0-0", "--dry-run=maybe")[0] == 2
    assert run("replay", "0-0", "--timeout", "1h")[0] == 2
    code, _, error = run("replay", "--reason", "Forbidden")
    assert (code, error) == (0, "No dead letters found.\n")
    assert fleet.log.reported == []


def test_what_others_write_does_nothing_to_a_terminal(fleet: Fixture) -> None:
    text = "\x1b]0;owned\x07 \x1b[2J\x9b31m"
    fleet.letters.add(0, letter(message=f"{text}\nsecond line", key=text, headers={"ce_source": text}))
    for words in (("list", "-o", "wide"), ("describe", "0-0")):
        code, out, _ = run(*words)
        assert code == 0
        assert "^[]0;owned" in out
        assert not any(one in out for one in "\x1b\x07\x9b")
    listed = said(invoke("get", "deadletters", "-o", "wide"))[1]
    assert len(listed.splitlines()) == 2
    assert "^[[2J" in listed
    assert "second line" not in listed
