"""The documentation agrees with the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from docs.reference import transitions
from tests.architecture.files import ROOT, files, name, tree
from tests.support import console, documents
from tests.support.metrics import code_metrics
from tests.support.tables import table

from moorage.cli.app import COMMANDS
from moorage.cli.contract.kafka_roles import service_classes
from moorage.runtime.chains import chain_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import from_headers
from moorage_schemas.field_docs import field_docs
from moorage_schemas.topics import TOPICS, Topic
from moorage_sdk import Connection

PAGES = {name(path): path.read_text("utf-8") for path in files(".md")}
OPERATIONS = PAGES["docs/operations.md"]
ARCHITECTURE = PAGES["docs/architecture.md"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")

_SHOWN_TO_ADD = re.compile(r'^```(?:diff|python title="services/[^"]*")\n.*?^```', re.MULTILINE | re.DOTALL)
# Without the names that CONTRIBUTING shows how to add, because they do not exist.
THERE = {page: _SHOWN_TO_ADD.sub("", text) for page, text in PAGES.items()}

LONGEST_LINE = 120
"""The maximum number of characters of a line of prose. Tables, code and output may be wider."""

_LINK = re.compile(r"!?\[[^\]]*\]\((?P<to>[^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"\bMOORAGE_[A-Z][A-Z_]*[A-Z]\b")


@table("page", sorted(PAGES))
def test_links_lead_somewhere(page: str) -> None:
    broken = []
    for match in _LINK.finditer(_FENCED.sub("", PAGES[page])):
        path, _, anchor = match["to"].partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in _anchors(target.read_text("utf-8"))):
            broken.append(match["to"])
    assert broken == []


@table("page", sorted(PAGES))
def test_make_targets_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = {found for code in _code(PAGES[page]) for found in re.findall(r"(?:^|\s)make ([a-z][a-z-]*)", code)}
    assert named <= targets


@table("page", sorted(PAGES))
def test_commands_exist(page: str) -> None:
    named = {
        found
        for code in _code(THERE[page])
        for found in re.findall(r"(?:^|bin/|(?<!--from)\s)moorage (?:--server \S+ )?([a-z][a-z-]*)\b", code)
    }
    assert named <= set(COMMANDS)


# tests/e2e/test_pages.py runs the commands of the pages for new users. Commands for installation are not run there,
# because each has its own test or program.
RUN_ELSEWHERE = {
    "make demo": "tests/e2e/test_demo.py",
    "make test": ".ci/run",
    "make up": "tests/e2e/test_cli_up.py",
    "make setup": ".ci/run",
    ". .venv/bin/activate": ".ci/run",
    "docker compose up --build --wait": "ops/compose-check",
    (
        "docker compose exec -T gateway moorage kubeconfig --server https://127.0.0.1:8080 > kubeconfig"
    ): "ops/compose-check",
    "export KUBECONFIG=$PWD/kubeconfig": "ops/compose-check",
    # They need a cluster.
    "moorage bridge kubernetes --kubeconfig east.kubeconfig": "tests/planes/bridges.py",
    "moorage diff cluster --kubeconfig east.kubeconfig": "tests/planes/test_killed_bridge.py",
}


# They need a package index. tests/e2e/test_wheels.py builds and installs the wheels without one.
NEED_AN_INDEX = {
    "uvx --from moorage moorage demo",
    "uv tool install moorage",
    "pip install moorage",
    "uv build --all-packages",
    "uv tool install moorage --find-links dist",
}


def test_every_command_that_sets_something_up_is_run_elsewhere() -> None:
    named = {
        line.partition("  ")[0]
        for page in ("README.md", "docs/tutorial.md")
        for _, _, lines in console.blocks(PAGES[page], "sh")
        for line in lines
        if line
    }
    assert named == RUN_ELSEWHERE.keys() | NEED_AN_INDEX
    assert [path for path in RUN_ELSEWHERE.values() if not (ROOT / path).exists()] == []


def test_the_pages_that_are_followed_have_no_other_commands() -> None:
    for page in (
        "README.md",
        "docs/tutorial.md",
        "docs/node-conditions.md",
        "docs/rollouts.md",
        "docs/eviction-requests.md",
    ):
        assert set(re.findall(r"^```(\w*)", PAGES[page], re.MULTILINE)) <= {"", "console", "sh", "python", "yaml"}, page
        indented = [line for line in _FENCED.sub("", PAGES[page]).splitlines() if line.startswith("    ")]
        assert indented == [], page


def test_the_picture_of_an_events_way_names_topics() -> None:
    picture = (ROOT / "docs" / "event.svg").read_text("utf-8")
    named = {word for text in re.findall(r'class="topic"[^>]*>([^<]+)<', picture) for word in text.split(", ")}
    assert {word.rstrip(",") for word in named} <= {topic.short for topic in TOPICS}
    boxes = {name: bool(chained) for chained, name in re.findall(r'class="service( chained)?">.*?>([\w-]+)<', picture)}
    assert boxes == {service.name: chain_of(service.name) is not None for service in service_classes()}


def test_the_readme_names_examples_that_exist() -> None:
    for path in re.findall(r"\bexamples/[\w./-]+", PAGES["README.md"]):
        assert (ROOT / path).exists(), path


def test_the_settings_table_is_the_settings() -> None:
    docs = field_docs(Settings)
    section = OPERATIONS.partition("## Settings")[2].partition("These variables")[0]
    rows = re.findall(r"^\| `(MOORAGE_\w+)` \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    assert rows == [
        (f"MOORAGE_{field.upper()}", f"`{info.default}`" if str(info.default) else "(empty)", docs[field])
        for field, info in Settings.model_fields.items()
    ]


def test_every_variable_of_the_docs_and_the_code_is_known_to_both() -> None:
    settings = {f"MOORAGE_{field.upper()}" for field in Settings.model_fields}
    read_by_code = {
        found for path in files(".py", under="services") for text in _strings(path) for found in _VARIABLE.findall(text)
    }
    read_by_tests = {documents.VARIABLE}
    read_by_sdk = {f"MOORAGE_{field.upper()}" for field in Connection.model_fields}
    assert read_by_sdk - set(_VARIABLE.findall(THERE["sdk/README.md"])) == set(), "not in sdk/README.md"
    documented = {found for page in THERE.values() for found in _VARIABLE.findall(page)}
    read = settings | read_by_code | read_by_tests | read_by_sdk
    assert documented - read == set(), "documented, but nobody reads it"
    assert (settings | read_by_code) - set(_VARIABLE.findall(OPERATIONS)) == set(), "not in docs/operations.md"


def test_the_topics_table_is_the_topics() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \| (.+?) \| (.+?) \| (\w+) \| (.+?) \| (.+?) \|$", ARCHITECTURE, re.MULTILINE)
    assert [row for row in rows if row[0] != "topic"] == [_row(topic) for topic in TOPICS]


def test_the_transitions_of_evictions_are_those_of_the_code() -> None:
    assert PAGES["docs/eviction.md"].partition("## Transitions\n\n")[2] == transitions()


def test_the_metrics_table_is_the_metrics() -> None:
    made = {one.name: (", ".join(one.labels), one.documentation) for one in code_metrics().values()}
    rows = re.findall(r"^\| `(moorage_\w+)` \| (.*?) ?\| (.+?) \|$", PAGES["docs/metrics.md"], re.MULTILINE)
    assert {name: (labels, text) for name, labels, text in rows} == made
    assert len(rows) == len(made)
    for page in ("docs/operations.md", "docs/metrics.md"):
        assert set(re.findall(r"`(moorage_[a-z_]+_[a-z]+)", PAGES[page])) <= made.keys(), page


def test_the_changes_that_contributing_shows_fit_the_files() -> None:
    shown = console.blocks(PAGES["CONTRIBUTING.md"], "diff")
    assert len(shown) >= 4
    for line, _, (head, *body) in shown:
        path = head.removeprefix("--- ")
        before = "\n".join(one[1:] for one in body if not one.startswith("+"))
        assert before in (ROOT / path).read_text("utf-8"), f"CONTRIBUTING.md:{line}: {path} has changed"
        assert any(one.startswith("+") for one in body)


def test_every_benchmark_is_described() -> None:
    page = PAGES["docs/benchmarks.md"]
    (quick,) = re.findall(r"^BENCH \?= (.+)$", MAKEFILE, re.MULTILINE)
    (others,) = re.findall(r"that BENCH names \((.+?)\)", MAKEFILE)
    run = {f"bench/{one}.py" for one in (*quick.split(), *others.split(", "))}
    described = set(re.findall(r"^\| `(bench/\w+\.py)` \|", page, re.MULTILINE))
    assert described == run
    assert [path for path in described if not (ROOT / path).exists()] == []


def test_the_tests_that_the_docs_name_exist() -> None:
    sources = [path.read_text("utf-8") for path in files(".py", under="tests")]
    defined = {one for text in sources for one in re.findall(r"^\s*(?:async )?def (\w+)", text, re.MULTILINE)}
    modules = {path.stem for path in files(".py", under="tests")}
    for page, text in PAGES.items():
        ours = re.sub(r"^```python\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)  # the others are the reader's
        whole = set(re.findall(r"\b(test_\w+)\b(?!…)", ours))
        begun = set(re.findall(r"\b(test_\w+)…", text))  # long names are shortened in tables
        assert whole - defined - modules == set(), page
        assert {name for name in begun if not any(each.startswith(name) for each in defined)} == set(), page
    assert re.search(r"\btest_\w+", PAGES["docs/failure-modes.md"]), "each failure mode names its test"


def test_the_probe_in_the_contracts_readme_works() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGES["schemas/README.md"], re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(code, made)  # noqa: S102 - our own example
    assert from_headers(made["headers"]).type == ConditionReported.event_type
    assert ConditionReported.model_validate_json(made["value"]).target.key == made["key"].decode() == "Node/n1"
    assert made["topic"] in {topic.name() for topic in TOPICS}


def test_the_changelog_says_what_is_not_released() -> None:
    headings = re.findall(r"^## (.+)$", PAGES["CHANGELOG.md"], re.MULTILINE)
    assert headings[0] == "Unreleased"
    entries = re.findall(r"^- ", PAGES["CHANGELOG.md"], re.MULTILINE)
    assert entries


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert [path.name[:4] for path in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    for path in records:
        title = path.read_text("utf-8").splitlines()[0]
        assert title.startswith(f"# {path.name[:4]}: ")
        assert f"[{path.name[:4]}]({path.name}) {title.partition(': ')[2]}" in PAGES["docs/decisions/README.md"]


# An entry of the changelog is one line, so that branches merge without conflicts.
@table("page", sorted(PAGES.keys() - {"CHANGELOG.md"}))
def test_prose_is_wrapped(page: str) -> None:
    prose = [line for line in _FENCED.sub("", PAGES[page]).splitlines() if not line.startswith(("|", "    ", "!["))]
    assert [line for line in prose if len(line) > LONGEST_LINE] == []


def test_every_page_is_listed() -> None:
    for path in sorted((ROOT / "docs").glob("*.md")):
        assert path.name == "README.md" or f"({path.name})" in PAGES["docs/README.md"], path.name


def test_folders_that_the_architecture_names_exist() -> None:
    for folder in re.findall(r"`((?:services|schemas|tests|bench|examples|ops)/[\w/]*)`", ARCHITECTURE):
        assert (ROOT / folder).is_dir(), folder


def _row(topic: Topic) -> tuple[str, ...]:
    days = topic.retention_ms // 86_400_000
    cleanup = topic.cleanup.value if topic.retention_ms < 0 else f"{topic.cleanup.value} after {days} d"
    key = topic.key.replace("|", ", ")
    return (topic.short, key, topic.partition_by, topic.event.__name__, cleanup, topic.writer)


def _code(page: str) -> list[str]:
    """All code: indented, fenced, or between backticks."""
    indented = [line.strip() for line in page.splitlines() if line.startswith("    ")]
    return [*indented, *_FENCED.findall(page), *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page)]


def _anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _strings(path: Path) -> list[str]:
    module = tree(path)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(module)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
