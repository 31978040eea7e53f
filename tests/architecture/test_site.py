"""The docs site builds without warnings, contains what the code defines, and can be read without a network."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.reference import PAGES
from tests.architecture.files import ROOT

from moorage.apiserver.machinery.served_kinds import served
from moorage.cli.app import COMMANDS
from moorage.cli.flags import FIELDS, flag
from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def shown(site: Path, page: str) -> str:
    """The text of a page, without its navigation."""
    text = (site / page / "index.html").read_text("utf-8")
    (article,) = re.findall(r"<article.*?</article>", text, re.DOTALL)
    words = re.sub(r"</?(?:a|code|em|strong)\b[^>]*>", "", article)  # within a sentence
    return html.unescape(re.sub(r"<[^>]+>", " ", words))


def test_every_page_of_the_docs_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    pages = {page.parent if page.name == "README" else page for page in pages} | {Path(name[:-3]) for name in PAGES}
    assert [page for page in sorted(pages) if not (site / page / "index.html").exists()] == []
    assert not list(site.rglob("*.py")), "what makes the site is no part of it"


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"')
    found = {match for path in site.rglob("*.html") for match in loads.findall(path.read_text("utf-8"))}
    assert found == set()
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(['\"]?https?:", styles) == []


def test_links_to_files_that_are_not_on_the_site_are_text(site: Path) -> None:
    links = {
        target
        for path in site.rglob("*.html")
        for target in re.findall(r'<a [^>]*href="([^"#?:]+)[#"]', path.read_text("utf-8"))
        if not (path.parent / target).exists() and not (site / target.lstrip("/")).exists()
    }
    assert links == set()


def test_the_reference_has_every_command(site: Path) -> None:
    text = shown(site, "reference/cli")
    helps = {name: entry.help.replace("`", "") for name, entry in COMMANDS.items()}
    assert [name for name, line in helps.items() if f"moorage {name}" not in text or line not in text] == []
    assert "--on KIND/NAME" in text
    assert "moorage topics list" in text


def test_the_reference_has_every_setting_and_its_flag(site: Path) -> None:
    text = shown(site, "reference/settings")
    assert [name for name in Settings.model_fields if variable(name) not in text] == []
    assert [name for name in FIELDS if flag(name) not in text] == []


def test_the_reference_has_every_topic_and_its_event(site: Path) -> None:
    text = shown(site, "reference/events")
    assert [topic.short for topic in TOPICS if topic.short not in text or topic.event_type not in text] == []
    assert "observedTime" in text


def test_the_reference_has_every_kind(site: Path) -> None:
    text = shown(site, "reference/api")
    assert [one.kind for one in served() if f" {one.plural} " not in text or one.api_version not in text] == []
    assert "maxConcurrent" in text
