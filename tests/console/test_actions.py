"""What one does in the console: each action does what the API does, and each is refused without the right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.component.gateway.memory_records import START
from tests.component.gateway.test_access import allow
from tests.component.gateway.test_dead_letters import letter, reports
from tests.console.test_pages import HOSTILE, text_of
from tests.console.test_sessions import csrf_of
from tests.console.world import ConsoleWorld, some_fleet
from tests.support.identities import written

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.console.pages import ACTIONS
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.dead_letter import Audited, RefusalReason
from moorage_schemas.topics import AUDIT

TOKENS = 'root,root,0,"system:masters"\nops,ops,1\neve,eve,2\n'
READ = ["get", "list", "watch"]
EVERYTHING_READ = (
    {"verbs": READ, "apiGroups": [""], "resources": ["nodes", "pods", "events"]},
    {
        "verbs": READ,
        "apiGroups": ["moorage.io"],
        "resources": [
            "bindings",
            "evictions",
            "workloadplacements",
            "zones",
            "taints",
            "deadletters",
            "evictionpauses",
        ],
    },
)
OPERATE = (
    {"verbs": ["patch"], "apiGroups": [""], "resources": ["nodes"]},
    {"verbs": ["create", "delete"], "apiGroups": ["moorage.io"], "resources": ["evictionpauses"]},
    {"verbs": ["create"], "apiGroups": ["moorage.io"], "resources": ["deadletters/replay"]},
    {"verbs": ["patch"], "apiGroups": ["moorage.io"], "resources": ["webhooks"]},
)
NODE = "/console/actions/targets/Node/n04"


async def world_of(folder: Path) -> ConsoleWorld:
    """A fleet with letters. `ops` may do everything here, and `eve` may look at it."""
    tokens = written(folder, "tokens.csv", TOKENS)
    world = ConsoleWorld(settings=Settings(token_auth_file=tokens))
    some_fleet(world)
    world.letters.add(0, letter(identity="r1", name="gone"), START + 1)
    world.letters.add(1, letter(RefusalReason.UNDELIVERED, service="webhooks", topic="bindings", value="w1"), START + 2)
    both = [{"kind": "User", "name": "ops"}, {"kind": "User", "name": "eve"}]
    await allow(world, "read", both, *EVERYTHING_READ)
    await allow(world, "operate", both[:1], *OPERATE)
    return world


async def act(world: ConsoleWorld, user: str, path: str, **form: Any) -> Any:
    """Send a form as somebody."""
    csrf = await csrf_of(world, user)
    return await world.http.post(path, data={**form, "csrf": csrf})


async def told(world: ConsoleWorld, answer: Any) -> str:
    """What is said on the page to which an action leads."""
    assert answer.status_code == 303, text_of(answer.text)
    html = (await world.page(answer.headers["location"])).text
    found = re.search(r'<p class="note done" role="status">(.*?)</p>', html)
    assert found is not None, html
    return text_of(found[1])


def taints_of(world: ConsoleWorld, name: str) -> list[str]:
    shown = world.store.get(ObjectId("Node", "", name))
    assert shown is not None
    return [f"{one['key']}:{one['effect']}" for one in shown.document["spec"].get("taints") or ()]


def audited(world: ConsoleWorld) -> list[tuple[str, str, str]]:
    every = [one.event for one in (*world.log.written, *world.log.reported) if one.topic is AUDIT]
    return [(one.user, one.verb, one.resource) for one in every if isinstance(one, Audited)]


async def test_a_target_is_tainted_and_untainted(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    page = (await world.page("/console/targets/Node/n04")).headers["location"]
    assert page.startswith("/console/login")
    answer = await act(world, "ops", f"{NODE}/taint", key="maintenance", value="yes", effect="NoExecute")
    assert await told(world, answer) == "n04 is tainted with maintenance=yes:NoExecute."
    assert taints_of(world, "n04") == ["maintenance:NoExecute"]
    again = await act(world, "ops", f"{NODE}/taint", key="maintenance", effect="NoExecute")
    assert again.status_code == 400
    assert "already has maintenance taint(s) with same effect(s)" in text_of(again.text)
    html = (await world.page("/console/targets/Node/n04")).text
    assert 'aria-label="Remove maintenance=yes:NoExecute"' in html
    answer = await act(world, "ops", f"{NODE}/untaint", key="maintenance", effect="NoExecute")
    assert await told(world, answer) == "maintenance:NoExecute is removed from n04."
    assert taints_of(world, "n04") == []
    assert [one for one in audited(world) if one[0] == "ops"] == [("ops", "patch", "Node//n04")] * 2


async def test_a_target_is_cordoned_and_uncordoned(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    assert await told(world, await act(world, "ops", f"{NODE}/cordon", do="cordon")) == "n04 is cordoned."
    html = (await world.page("/console/targets/Node/n04")).text
    assert ">Uncordon<" in html
    assert ">Cordon<" not in html
    assert await told(world, await act(world, "ops", f"{NODE}/cordon", do="uncordon")) == "n04 is uncordoned."
    shown = world.store.get(ObjectId("Node", "", "n04"))
    assert shown is not None
    assert not shown.document["spec"].get("unschedulable")


async def test_evictions_are_paused_and_resumed(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    answer = await act(world, "ops", "/console/actions/pause", scope="fleet", reason="storm")
    assert await told(world, answer) == "Evictions of the whole fleet are paused (all). Deadlines keep running."
    answer = await act(world, "ops", "/console/actions/pause", scope="zone", value="eu/eu-1")
    assert "Evictions of zones=eu/eu-1 are paused (zones-eu-eu-1-" in await told(world, answer)
    answer = await act(world, "ops", "/console/actions/pause", scope="fleet", back="/console/targets/Node/n04")
    assert answer.headers["location"] == "/console/targets/Node/n04"
    assert "are paused already" in await told(world, answer)
    html = (await world.page("/console/pauses")).text
    assert "Paused 3" in text_of(html), "one was there"
    assert "storm" in html
    names = re.findall(r'name="name" value="([^"]+)"', html)
    assert len(names) == 3
    for name in names:
        assert "are resumed." in await told(world, await act(world, "ops", "/console/actions/resume", name=name))
    assert "No active pauses." in text_of((await world.page("/console/pauses")).text)


async def test_dead_letters_are_shown_and_found(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await csrf_of(world, "ops")
    html = (await world.page("/console/deadletters")).text
    assert re.findall(r'href="/console/deadletters/([\d-]+)"', html) == ["1-0", "0-1", "0-0"]
    assert re.findall(r'type="checkbox" name="name" value="([\d-]+)"', html) == ["0-1", "0-0"]
    html = (await world.page("/console/deadletters?reason=Undelivered&since=7d")).text
    assert re.findall(r'href="/console/deadletters/([\d-]+)"', html) == ["1-0"]
    assert "No matching dead letters." in (await world.page("/console/deadletters?key=a,b")).text
    shown = text_of((await world.page("/console/deadletters/0-0")).text)
    assert "UnknownTarget" in shown
    assert "DiskSlow" in shown
    assert "Send again" in shown
    webhook = text_of((await world.page("/console/deadletters/1-0")).text)
    assert "moorage webhooks replay w1 --since 2026-01-01T12:00:00" in webhook
    assert (await world.page("/console/deadletters/9-9")).status_code == 404


async def test_a_long_list_of_letters_has_parts(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    for number in range(60):
        world.letters.add(number % 3, letter(), START + 10 + number)
    await csrf_of(world, "ops")
    html = (await world.page("/console/deadletters")).text
    assert html.count('scope="row"') == 50
    (older,) = re.findall(r'<a href="([^"]+)" rel="next">', html)
    rest = (await world.page(older.replace("&amp;", "&"))).text
    assert rest.count('scope="row"') == 13
    assert 'rel="next"' not in rest
    assert ">Newest<" in rest


async def test_letters_are_sent_again(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    path = "/console/actions/deadletters/replay"
    assert await told(world, await act(world, "ops", path, name="0-0", do="check")) == "0-0 can be sent again."
    assert reports(world) == []
    assert await told(world, await act(world, "ops", path, name="0-0", do="send")) == "0-0 was sent again."
    assert [one.target.name for one in reports(world)] == ["n04"]
    assert ("ops", "create/replay", "DeadLetter//0-0") in audited(world)
    both = await act(world, "ops", path, name=["0-0", "0-1"], back="/console/deadletters?reason=UnknownTarget")
    assert both.headers["location"] == "/console/deadletters?reason=UnknownTarget"
    said = await told(world, both)
    assert "1 were sent again. 1 not: 0-1: target: invalid value" in said
    alone = await act(world, "ops", path, name="0-1")
    assert alone.status_code == 404
    assert "must be a declared target" in text_of(alone.text)
    nothing = await act(world, "ops", path)
    assert nothing.status_code == 400
    assert "select at least one letter" in nothing.text


async def test_a_webhook_sends_again_what_it_has_not_taken(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    spec = {"url": "https://hooks.example.com", "secretFile": "w1"}
    root = {"authorization": "Bearer root"}
    await world.ok(
        "POST", "/apis/moorage.io/v1alpha1/webhooks", {"metadata": {"name": "w1"}, "spec": spec}, headers=root
    )
    await csrf_of(world, "ops")
    html = (await world.page("/console/deadletters/1-0")).text
    form = dict(re.findall(r'type="hidden" name="(webhook|since)" value="([^"]*)"', html))
    answer = await act(world, "ops", "/console/actions/webhooks/replay", **form)
    assert "w1: undelivered events since 2026-01-01T12:00:00" in await told(world, answer)
    shown = world.store.get(ObjectId("Webhook", "", "w1"))
    assert shown is not None
    assert shown.document["spec"]["replay"]["since"] == form["since"]
    assert shown.document["spec"]["url"] == spec["url"]
    wrong = await act(world, "ops", "/console/actions/webhooks/replay", webhook="w1", since="yesterday")
    assert wrong.status_code == 400


async def test_each_action_is_refused_without_the_right(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await act(world, "ops", "/console/actions/pause", scope="fleet")
    forms: dict[str, dict[str, str]] = {
        f"{NODE}/taint": {"key": "a", "effect": "NoSchedule"},
        f"{NODE}/untaint": {"key": "a", "effect": "NoSchedule"},
        f"{NODE}/cordon": {"do": "cordon"},
        "/console/actions/pause": {"scope": "namespace", "value": "shop"},
        "/console/actions/resume": {"name": "all"},
        "/console/actions/deadletters/replay": {"name": "0-0"},
        "/console/actions/webhooks/replay": {"webhook": "w1", "since": "2026-01-01T12:00:00Z"},
        "/console/actions/simulate/apply": {"kind": "Node", "name": "n04", "what": "cordon"},
    }
    routes = [re.compile(re.sub(r"\{\w+\}", "[^/]+", action.path)) for action in ACTIONS]
    assert all(any(route.fullmatch(path) for path in forms) for route in routes), "each is tried"
    await act(world, "ops", f"{NODE}/taint", key="a", effect="NoSchedule")
    before = len(world.log.written)
    for path, form in forms.items():
        answer = await act(world, "eve", path, **form)
        assert answer.status_code == 403, path
        assert "forbidden" in answer.text, path
    assert len(world.log.written) == before
    assert reports(world) == []


@pytest.mark.parametrize(
    ("path", "absent", "told_instead"),
    [
        (
            "/console/targets/Node/n04",
            ("<button>Taint", ">Cordon<", "Pause evictions"),
            "You lack permission to change this target.",
        ),
        (
            "/console/pauses",
            ('class="main">Pause', 'aria-label="Resume'),
            "You lack permission to create evictionpauses.",
        ),
        ("/console/deadletters", ("checkbox", "Send selected"), "You lack permission to send letters again."),
        ("/console/deadletters/0-0", (">Send again</button>",), "You lack permission to send letters again."),
    ],
)
async def test_what_one_may_not_do_is_not_offered(
    tmp_path: Path, path: str, absent: tuple[str, ...], told_instead: str
) -> None:
    world = await world_of(tmp_path)
    await act(world, "ops", "/console/actions/pause", scope="fleet")
    offered = (await world.page(path)).text
    assert all(one in offered for one in absent), "to who may"
    await csrf_of(world, "eve")
    html = (await world.page(path)).text
    assert not any(one in html for one in absent)
    assert told_instead in html


async def test_who_may_not_read_letters_is_told(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await allow(
        world, "none", [{"kind": "User", "name": "eve"}], {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    )
    tokens = written(tmp_path, "tokens.csv", f"{TOKENS}bob,bob,3\n")
    other = ConsoleWorld(settings=Settings(token_auth_file=tokens))
    await csrf_of(other, "bob")
    assert "You lack permission to list deadletters." in (await other.page("/console/deadletters")).text
    assert (await other.page("/console/deadletters/0-0")).status_code == 403
    assert "You lack permission to list evictionpauses." in (await other.page("/console/pauses")).text


@pytest.mark.parametrize(
    ("path", "form"),
    [
        (f"{NODE}/taint", {"key": "a b", "effect": "NoSchedule"}),
        (f"{NODE}/taint", {"key": "a", "effect": "Never"}),
        (f"{NODE}/taint", {"effect": "NoSchedule"}),
        (f"{NODE}/untaint", {"key": "none", "effect": "NoSchedule"}),
        (f"{NODE}/cordon", {"do": "drain"}),
        ("/console/actions/targets/Pod/web-1/cordon", {"do": "cordon"}),
        ("/console/actions/targets/Node/none/cordon", {"do": "cordon"}),
        ("/console/actions/pause", {"scope": "planet"}),
        ("/console/actions/pause", {"scope": "zone", "value": "eu"}),
        ("/console/actions/resume", {"name": "none"}),
        ("/console/actions/deadletters/replay", {"name": "../../nodes/n04"}),
        ("/console/actions/deadletters/replay", {"name": ",".join(f"0-{number}" for number in range(60))}),
    ],
)
async def test_what_cannot_be_done_is_said(tmp_path: Path, path: str, form: dict[str, str]) -> None:
    world = await world_of(tmp_path)
    before = len(world.log.written)
    answer = await act(world, "ops", path, **form)
    assert answer.status_code in {400, 404}, answer.text
    assert len(world.log.written) == before


async def test_what_others_write_in_letters_and_pauses_is_text() -> None:
    world = ConsoleWorld()
    headers = {"ce_source": HOSTILE, HOSTILE: HOSTILE}
    original = json.dumps({"message": HOSTILE})
    world.letters.add(0, letter(headers=headers, key=HOSTILE, message=HOSTILE, original=original, service=HOSTILE))
    pause = {"apiVersion": "moorage.io/v1alpha1", "kind": "EvictionPause", "metadata": {"name": "p"}}
    world.declare({**pause, "spec": {"scope": {"namespaces": [HOSTILE]}, "reason": HOSTILE}})
    world.node("n1")
    for path in (
        "/console/deadletters",
        "/console/deadletters/0-0",
        f"/console/deadletters?key={HOSTILE}",
        "/console/pauses",
    ):
        answer = await world.page(path)
        assert answer.status_code == 200, answer.text
        assert "<img src=x" not in answer.text
        assert "1787569" not in answer.text
