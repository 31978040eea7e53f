"""What if: simulated on a copy of what the services have decided, drawn, and applied by the same requests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from tests.component.gateway.test_access import allow
from tests.console.simulated import SimulatedWorld
from tests.console.test_actions import TOKENS, act, told
from tests.console.test_actions_in_a_browser import log_in
from tests.console.test_pages import HOSTILE, text_of
from tests.console.test_sessions import csrf_of
from tests.support.browsers import opened
from tests.support.identities import written

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import RESOURCES

PAGE = "/console/simulate?kind=Node&name=n1"
TAINT = f"{PAGE}&what=taint&key=maintenance&value=yes&effect=NoExecute&for=10m"
APPLY = "/console/actions/simulate/apply"
READ = {"verbs": ["get", "list", "watch"], "apiGroups": ["", "moorage.io"], "resources": ["*"]}


async def world_of(folder: Path) -> SimulatedWorld:
    """`ops` may simulate and change nodes, `eve` may only simulate, and `ann` may only look."""
    tokens = written(folder, "tokens.csv", f"{TOKENS}ann,ann,3\n")
    world = SimulatedWorld(settings=Settings(token_auth_file=tokens))
    users = [{"kind": "User", "name": name} for name in ("ops", "eve", "ann")]
    await allow(world, "read", users, READ)
    ask = {"verbs": ["create"], "apiGroups": ["moorage.io"], "resources": ["simulations"]}
    await allow(world, "simulate", users[:2], ask)
    change = {"verbs": ["patch", "delete"], "apiGroups": [""], "resources": ["nodes"]}
    evict = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"]}
    await allow(world, "change", users[:1], change, evict)
    return world


def node(world: SimulatedWorld, name: str = "n1") -> dict[str, Any]:
    shown = world.store.get(ObjectId("Node", "", name))
    assert shown is not None
    return shown.document


async def test_a_taint_is_drawn_before_it_is_applied(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await csrf_of(world, "ops")
    html = (await world.page(TAINT)).text
    said = text_of(html)
    assert re.search(r"Leaving workloads .*default/ web-\S+ n1 Completed 0s .*stays", said), said
    assert re.search(r"Moved workloads .*default/ web-\S+ .*n1 → n[23]", said), said
    assert "Node/n1 + maintenance=yes:NoExecute" in said
    assert "PATCH /api/v1/nodes/n1" in said
    assert "Apply: it gets a taint" in said
    assert "<svg" in html
    assert "taints" not in node(world)["spec"], "nothing is changed"
    form = dict(re.findall(r'type="hidden" name="(kind|name|what|key|value|effect)" value="([^"]*)"', html))
    answer = await act(world, "ops", APPLY, **form)
    assert await told(world, answer) == "Done: n1: it gets a taint."
    (asked,) = world.asked
    (write,) = asked["writes"]
    assert write["body"]["spec"]["taints"] == [
        {name: one[name] for name in ("key", "value", "effect")} for one in node(world)["spec"]["taints"]
    ], "what was simulated is what was done"


@pytest.mark.parametrize(
    ("question", "shown", "applied"),
    [
        ("what=cordon", "node.kubernetes.io/unschedulable:NoSchedule", "PATCH /api/v1/nodes/n1"),
        ("what=drain", "Moved workloads", "/eviction"),
        ("what=delete", "Moved workloads", "DELETE /api/v1/nodes/n1"),
        ("what=silent", "An outage cannot be applied", ""),
        ("what=failed&for=1h", "Leaving workloads", ""),
    ],
)
async def test_other_questions(tmp_path: Path, question: str, shown: str, applied: str) -> None:
    world = await world_of(tmp_path)
    await csrf_of(world, "ops")
    said = text_of((await world.page(f"{PAGE}&{question}")).text)
    assert shown in said, said
    if applied:
        assert applied in said
    assert ("Apply: " in said) is bool(applied)
    assert len(world.asked) == 1


async def test_a_drain_that_is_applied_evicts(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    answer = await act(world, "ops", APPLY, kind="Node", name="n1", what="drain")
    assert await told(world, answer) == "Done: n1: it is drained."
    assert node(world)["spec"]["unschedulable"] is True
    evicted = [one.key for one in world.log.written if one.topic is RESOURCES and one.key == "Deployment/default/web"]
    assert len(evicted) == 1, "its only pod there; a deployment's pods leave by its record"


async def test_who_may_not_change_it_may_ask(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await csrf_of(world, "eve")
    said = text_of((await world.page(TAINT)).text)
    assert "Leaving workloads" in said
    assert "You lack permission for this change: nodes &#34;n1&#34; is forbidden" in said
    assert "Apply:" not in said
    form = {"kind": "Node", "name": "n1", "what": "taint", "key": "maintenance", "effect": "NoExecute"}
    assert (await act(world, "eve", APPLY, **form)).status_code == 403
    assert "taints" not in node(world)["spec"]


async def test_who_may_not_simulate_is_told(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await csrf_of(world, "ann")
    said = text_of((await world.page(TAINT)).text)
    assert "You lack permission to create simulations." in said
    assert world.asked == []
    assert "What if" not in (await world.page("/console/targets/Node/n1")).text.partition("<main")[2]


async def test_another_site_cannot_make_a_browser_ask(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await csrf_of(world, "ops")
    answer = await world.page(TAINT, headers={"sec-fetch-site": "cross-site"})
    assert "forms of other sites are not taken" in answer.text
    assert world.asked == []


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("kind=Node&name=none&what=cordon", "nodes &#34;none&#34; not found"),
        ("kind=Node&name=n1&what=explode", "what: invalid value"),
        ("kind=Node&name=n1&what=taint&effect=NoExecute", "key: required value"),
        ("kind=Node&name=n1&what=taint&key=a%20b&effect=NoExecute", "invalid taint spec"),
        ("kind=Node&name=n1&what=untaint&key=none&effect=NoExecute", "taint &#34;none:NoExecute&#34; not found"),
        (f"kind=Node&name={HOSTILE}&what=cordon", "not found"),
    ],
)
async def test_what_cannot_be_asked_is_said(tmp_path: Path, query: str, why: str) -> None:
    world = await world_of(tmp_path)
    await csrf_of(world, "ops")
    answer = await world.page(f"/console/simulate?{query}")
    assert answer.status_code == 200
    assert why in answer.text
    assert "<img src=x" not in answer.text
    assert world.asked == []


async def test_it_is_simulated_and_applied_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    async with world.served() as address, opened(browser) as tab:
        page = tab.page
        await log_in(page, address, "ops", "/console/targets/Node/n1")
        await page.get_by_role("link", name="What if …").click()
        await page.get_by_label("What if").select_option("drain")
        await page.get_by_role("button", name="Simulate").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Moved workloads")).to_be_visible()
        assert await tab.violations() == []
        await page.get_by_role("button", name="Apply: it is drained").click()
        await expect(page.get_by_text("Done: n1: it is drained.")).to_be_visible()
        assert node(world)["spec"]["unschedulable"] is True
