"""Actions in a real browser: with the mouse, by keyboard alone, without JavaScript, and refused without the right."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, Page, expect
from tests.component.gateway.test_dead_letters import reports
from tests.console.test_actions import taints_of, world_of
from tests.support.browsers import opened

REFUSED = ("403 (Forbidden)", "403 http")
"""What the browser says of a request that is to be refused."""


async def log_in(page: Page, address: str, token: str, path: str = "/") -> None:
    await page.goto(address + path)
    await page.get_by_label("Bearer token").fill(token)
    await page.get_by_role("button", name="Log in").click()


async def test_a_target_is_tainted_untainted_and_cordoned(browser: Browser, tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    async with world.served() as address, opened(browser) as tab:
        page = tab.page
        await log_in(page, address, "ops", "/console/targets/Node/n04")
        await page.get_by_label("Taint key").fill("maintenance")
        await page.get_by_label("Effect").select_option("NoExecute")
        await page.get_by_role("button", name="Taint", exact=True).click()
        await expect(page.get_by_text("n04 is tainted with maintenance:NoExecute.")).to_be_visible()
        assert taints_of(world, "n04") == ["maintenance:NoExecute"]
        assert await tab.violations() == []
        await page.get_by_role("button", name="Remove maintenance:NoExecute").click()
        await expect(page.get_by_text("maintenance:NoExecute is removed from n04.")).to_be_visible()
        await page.get_by_role("button", name="Cordon").click()
        await expect(page.get_by_role("button", name="Uncordon")).to_be_visible()
        await page.get_by_role("button", name="Uncordon").click()
        await expect(page.get_by_text("n04 is uncordoned.")).to_be_visible()


async def test_letters_are_sent_again_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    async with world.served() as address, opened(browser) as tab:
        page = tab.page
        await log_in(page, address, "ops", "/console/deadletters")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
        await page.get_by_label("Select 0-0").focus()
        await page.keyboard.press("Space")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        assert await tab.focused() == "Send selected again"
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("0-0 was sent again.")).to_be_visible()
        assert [one.target.name for one in reports(world)] == ["n04"]


async def test_actions_work_without_javascript(browser: Browser, tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    async with world.served() as address, opened(browser, java_script_enabled=False) as tab:
        page = tab.page
        await log_in(page, address, "ops", "/console/pauses")
        await page.get_by_label("Reason").fill("storm")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.get_by_role("row", name="storm")).to_be_visible()
        await page.get_by_role("button", name="Resume evictions of the whole fleet").click()
        await expect(page.get_by_text("Evictions of the whole fleet are resumed.")).to_be_visible()
        await expect(page.get_by_role("row", name="storm")).not_to_be_visible()
        await page.goto(f"{address}/console/deadletters/0-0")
        await page.get_by_role("button", name="Only check").click()
        await expect(page.get_by_text("0-0 can be sent again.")).to_be_visible()
        assert reports(world) == []


async def test_a_form_that_was_open_while_the_right_was_taken_is_refused(browser: Browser, tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    async with world.served() as address, opened(browser, tolerated=REFUSED) as tab:
        page = tab.page
        await log_in(page, address, "ops", "/console/targets/Node/n04")
        root = {"authorization": "Bearer root"}
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        await world.ok("DELETE", f"{roles}/operate", headers=root)
        await page.get_by_label("Taint key").fill("maintenance")
        await page.get_by_role("button", name="Taint", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Not permitted")
        await expect(page.get_by_role("alert")).to_contain_text("cannot patch resource")
        assert taints_of(world, "n04") == []
        assert await tab.violations() == []


async def test_who_only_looks_is_offered_nothing(browser: Browser, tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    async with world.served() as address, opened(browser) as tab:
        page = tab.page
        await log_in(page, address, "eve", "/console/targets/Node/n04")
        await expect(page.get_by_text("You lack permission to change this target.")).to_be_visible()
        for path in (
            "/console/targets/Node/n04",
            "/console/deadletters",
            "/console/deadletters/0-0",
            "/console/pauses",
        ):
            await page.goto(address + path)
            assert await page.locator("main form[method=post]").count() == (1 if path == "/console/deadletters" else 0)
            assert await page.locator("main form[method=post] button").count() == 0
            assert await tab.violations() == [], path
