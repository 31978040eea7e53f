"""Hooks of mkdocs: the pages that are made from the code or lie outside of this folder, and the links between them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from docs.reference import PAGES
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]

ELSEWHERE: Final = {
    "index.md": "README.md",
    "contract.md": "schemas/README.md",
    "sdk.md": "sdk/README.md",
    "examples.md": "examples/README.md",
    "seeded.md": "tests/chaos/seeded/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site that are files of the repository outside of `docs/`."""

_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<to>[^)\s]+)\)")
_FENCE: Final = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions in the navigation, in their order."""
    folder = Path(config.docs_dir) / "decisions"
    pages = [
        f"decisions/{path.name}"
        for path in sorted(folder.glob("*.md"), key=lambda path: (path.name != "README.md", path.name))
    ]
    config.nav = [
        {"Decisions": pages} if section == {"Decisions": pages[0]} else section for section in config.nav or []
    ]
    return config


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add what is not in `docs/`."""
    for name, source in ELSEWHERE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text("utf-8")))
    for name, make in PAGES.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links lead to pages of the site; what is not on it becomes text, or a link to the repository."""
    source = ELSEWHERE.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    known = {path: name for name, path in ELSEWHERE.items()}

    def replaced(found: re.Match[str]) -> str:
        path, hash_, anchor = found["to"].partition("#")
        if "://" in path or not path:
            return found[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        name = known.get(wanted) or wanted.removeprefix("docs/")
        if wanted == "docs/README.md":
            name = "index.md"
        if files.get_file_from_path(name) is None:
            return f"[{found['text']}]({config.repo_url}/blob/main/{wanted})" if config.repo_url else found["text"]
        to = posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or ".")
        return f"{found['image']}[{found['text']}]({to}{hash_}{anchor})"

    parts: list[Any] = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)
