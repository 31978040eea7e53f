"""The console in a real browser: without errors, live, by keyboard, for screen readers, in light and dark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, Dialog, Page, expect
from tests.component.gateway.double import NOW
from tests.console.test_pages import failing_node, hostile_fleet
from tests.console.test_sessions import world_of
from tests.console.world import ConsoleWorld, some_cluster, some_fleet
from tests.support.browsers import opened

from moorage_schemas.topics import RESOURCES

PAGES = (
    "/",
    "/console/targets",
    "/console/targets/Node/n01",
    "/console/targets/Node/n01/why",
    "/console/evictions",
    "/console/placements",
    "/console/workloads/Pod/default/web-1",
    "/console/workloads/Pod/default/batch-1",
    "/console/workloads/Pod/default/web-1/why",
    "/console/zones",
    "/console/history",
    "/console/evictions?state=Ended",
    "/console/zones/us.us-1",
    "/console/budgets",
    "/console/search?q=web",
    "/console/objects",
    "/console/objects/pods",
    "/console/objects/poddisruptionbudgets/default/web",
    "/console/deadletters",
    "/console/deadletters/0-0",
    "/console/pauses",
    "/console/simulate?kind=Node&name=n04",
    "/console/login",
    "/console/clusters",
    "/clusters/east/console",
    "/clusters/east/console/history",
    "/clusters/east/console/targets/Node/n01",
    "/clusters/east/console/workloads/Pod/default/web-1",
)


def world() -> ConsoleWorld:
    made = ConsoleWorld()
    some_fleet(made)
    some_cluster(made)
    return made


async def is_live(page: Page) -> None:
    """Wait until a page follows what changes."""
    await expect(page.locator("#connection")).to_have_text("Live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_pages_are_accessible_and_without_errors(
    browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    async with (
        world().served() as address,
        opened(browser, color_scheme=scheme, viewport={"width": width, "height": 900}) as tab,
    ):
        for path in PAGES:
            await tab.page.goto(address + path)
            if await tab.page.locator("#live").count():
                await is_live(tab.page)
            assert await tab.violations() == [], path
            wider = await tab.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wider <= 0, f"{path} is {wider} px wider than the window"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_the_causes_of_a_target_are_accessible(
    browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    async with (
        failing_node().served() as address,
        opened(browser, color_scheme=scheme, viewport={"width": width, "height": 900}) as tab,
    ):
        page = tab.page
        await page.goto(f"{address}/console/targets/Node/n1")
        await page.get_by_role("link", name="Why", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("n1")
        assert await tab.violations() == []
        wider = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0, f"the page is {wider} px wider than the window"
        await page.get_by_role("link", name="Causes of example.com/mine:NoSchedule from explicit").click()
        await expect(
            page.get_by_role("heading", name="Causes of the taint example.com/mine:NoSchedule")
        ).to_be_in_viewport()


async def test_pages_work_without_javascript(browser: Browser) -> None:
    async with world().served() as address, opened(browser, java_script_enabled=False) as tab:
        await tab.page.goto(address)
        await tab.page.get_by_role("link", name="Targets", exact=True).click()
        await tab.page.get_by_label("State").select_option("NotReady")
        await tab.page.get_by_role("button", name="Show").click()
        await tab.page.get_by_role("link", name="n01", exact=True).click()
        await expect(tab.page.get_by_role("heading", level=1)).to_have_text("n01")
        await tab.page.get_by_role("link", name="default/web-1").first.click()
        await expect(tab.page.get_by_role("row", name="n01 chosen")).to_contain_text("190")


async def test_changes_are_shown_without_a_reload(browser: Browser) -> None:
    fleet = world()
    async with fleet.served() as address, opened(browser) as tab:
        page = tab.page
        await page.goto(address)
        await is_live(page)
        for round_ in range(5):
            status, shown = ("True", "0") if round_ % 2 == 0 else ("False", "1")
            fleet.condition("n01", status)
            count = page.locator("#part-totals div", has_text="NotReady").locator("dd")
            await expect(count).to_have_text(shown)


@pytest.mark.parametrize("width", [1280, 390])
async def test_one_chooses_a_cluster_and_follows_it(browser: Browser, width: int) -> None:
    fleet = world()
    async with fleet.served() as address, opened(browser, viewport={"width": width, "height": 900}) as tab:
        page = tab.page
        await page.goto(address)
        await page.locator(".chooser summary").click()
        assert await tab.violations() == []
        wider = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0, f"the page is {wider} px wider than the window"
        await page.get_by_role("link", name="east", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Cluster east")
        await is_live(page)
        some_cluster(fleet, "west")
        fleet.log.append(RESOURCES, "east:Node//n01", "east:Node/n01", None)
        await expect(page.locator("#part-totals")).to_contain_text("36")
        await page.get_by_role("link", name="Targets", exact=True).click()
        await page.get_by_role("link", name="n02", exact=True).click()
        await expect(page).to_have_url(f"{address}/clusters/east/console/targets/Node/n02")


async def test_the_page_of_a_target_is_live(browser: Browser) -> None:
    fleet = world()
    async with fleet.served() as address, opened(browser) as tab:
        page = tab.page
        await page.goto(f"{address}/console/targets/Node/n04")
        await is_live(page)
        await expect(page.locator("#part-evictions")).to_contain_text("No open evictions.")
        fleet.taint("n04", "example.com/broken")
        fleet.evicting("web-4", "n04", "Scheduled")
        await expect(page.locator("#part-taints")).to_contain_text("example.com/broken:NoExecute")
        await expect(page.locator("#part-evictions")).to_contain_text("Scheduled")


async def test_the_focus_stays_where_it_is_when_something_changes(browser: Browser) -> None:
    fleet = world()
    async with fleet.served() as address, opened(browser) as tab:
        page = tab.page
        await page.goto(address)
        await is_live(page)
        await page.locator("#part-evicting a", has_text="web-2").focus()
        fleet.evicting("web-3", "n03", "Requested", due=-60)
        await expect(page.locator("#part-evicting")).to_contain_text("web-3")
        assert await tab.focused() == "default/web-2"


async def test_a_page_by_keyboard_alone(browser: Browser) -> None:
    async with world().served() as address, opened(browser) as tab:
        page = tab.page
        await page.goto(address)
        await page.keyboard.press("Tab")
        assert await tab.focused() == "Skip to the content"
        await page.keyboard.press("Enter")
        assert await tab.focused() != "Skip to the content"
        await page.keyboard.press("Tab")
        assert await tab.focused() == "37", "the first link of the content"
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Targets")


async def test_a_page_that_lost_its_gateway_says_so_and_goes_on(browser: Browser) -> None:
    fleet = world()
    tolerated = (
        "ERR_CONNECTION_REFUSED",
        "ERR_INCOMPLETE_CHUNKED_ENCODING",
        "sse",
        "SSE",
        "Failed to fetch",
        "network error",
    )
    async with opened(browser, tolerated=tolerated) as tab:
        async with fleet.served() as address:
            await tab.page.goto(address)
            await is_live(tab.page)
        await expect(tab.page.locator("#connection")).to_contain_text("Not connected")
        fleet.condition("n01", "True")
        async with fleet.served(int(address.rpartition(":")[2])):
            await expect(tab.page.locator("#connection")).to_have_text("Live")
            count = tab.page.locator("#part-totals div", has_text="NotReady").locator("dd")
            await expect(count).to_have_text("0")


async def test_somebody_logs_in_and_out(browser: Browser, tmp_path: Path) -> None:
    fleet = await world_of(tmp_path)
    async with fleet.served() as address, opened(browser, tolerated=("401",)) as tab:
        page = tab.page
        await page.goto(f"{address}/console/targets?state=NotReady")
        await page.get_by_label("Bearer token").fill("nobody's")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("The gateway does not accept this token.")
        assert await tab.violations() == []
        await page.get_by_label("Bearer token").fill("bob")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{address}/console/targets?state=NotReady")
        await expect(page.locator("#target-Node-n01")).to_be_visible()
        await page.goto(address)
        await expect(page.locator("#part-evicting")).to_contain_text("You lack permission to list evictions.")
        assert await tab.violations() == []
        assert await page.evaluate("document.cookie") == ""
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        await page.goto(address)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


async def test_an_open_page_leads_to_the_login_when_its_token_ends(browser: Browser, tmp_path: Path) -> None:
    fleet = await world_of(tmp_path)
    async with fleet.served() as address, opened(browser, tolerated=("401",)) as tab:
        page = tab.page
        await page.goto(address)
        await page.get_by_label("Bearer token").fill("bob")
        await page.keyboard.press("Enter")
        await is_live(page)
        (tmp_path / "tokens.csv").write_text('root,root,0,"system:masters"\n', "utf-8")
        fleet.condition("n01", "True")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        await expect(page.get_by_role("status")).to_contain_text("is no longer valid")


async def test_markup_that_others_write_does_nothing(browser: Browser) -> None:
    fleet = hostile_fleet()
    async with fleet.served() as address, opened(browser) as tab:
        page = tab.page
        dialogs: list[Dialog] = []

        def note(dialog: Dialog) -> None:
            dialogs.append(dialog)

        page.on("dialog", note)
        for path in ("/", "/console/targets", "/console/targets/Node/n1", "/console/workloads/Pod/default/p"):
            await page.goto(address + path)
            await is_live(page)
            fleet.condition("n1", "Unknown", reason="<img src=x onerror=alert(2)>")
            fleet.condition("n1", "False", reason="<img src=x onerror=alert(3)>")
            assert await page.locator("img[src=x]").count() == 0
        assert dialogs == []


async def test_the_history_stays_open_while_it_changes(browser: Browser) -> None:
    fleet = ConsoleWorld()
    some_fleet(fleet)
    async with fleet.served() as address, opened(browser) as tab:
        await tab.page.goto(address)
        await is_live(tab.page)
        await tab.page.get_by_text("As a table: Not ready").click()
        table = tab.page.get_by_role("table", name="Not ready in the last hour")
        await expect(table).to_be_visible()
        fleet.condition("n10", "False", at=NOW - timedelta(minutes=7))
        await expect(table).to_contain_text("4")
        await expect(table).to_be_visible()
