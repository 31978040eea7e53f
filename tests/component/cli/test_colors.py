"""Tables have colours only on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.component.cli.fake_gateway import FakeGateway, Run, said
from tests.support.answers import Answers
from tests.support.tables import table

from moorage.cli.render import colors

GREEN, YELLOW, RED, RESET = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"


def plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@table(
    ("column", "cell", "colored"),
    [
        ("STATUS", "Ready", f"{GREEN}Ready{RESET}"),
        ("STATUS", "NotReady,SchedulingDisabled", f"{RED}NotReady{RESET},{YELLOW}SchedulingDisabled{RESET}"),
        ("STATE", "Held", f"{YELLOW}Held{RESET}"),
        ("STATE", "FullDisruption,Stopped", f"{RED}FullDisruption{RESET},{RED}Stopped{RESET}"),
        ("READY", "3/3", f"{GREEN}3/3{RESET}"),
        ("READY", "1/3", f"{YELLOW}1/3{RESET}"),
        ("READY", "0/0", "0/0"),
        ("READY", "False", f"{RED}False{RESET}"),
        ("DEGRADED", "False", f"{GREEN}False{RESET}"),
        ("DEGRADED", "True", f"{RED}True{RESET}"),
        (
            "TAINTS",
            "a=b:NoExecute,c:NoSchedule,d:PreferNoSchedule,+1",
            f"{RED}a=b:NoExecute{RESET},{YELLOW}c:NoSchedule{RESET},d:PreferNoSchedule,+1",
        ),
        ("TAINTS", "<none>", "<none>"),
        ("STATUS", "SomethingNew", "SomethingNew"),
        ("NAME", "Ready", "Ready"),
        ("SCHEDULED", "3", "3"),
    ],
)
def test_cells_are_painted_by_what_they_say(column: str, cell: str, colored: str) -> None:
    assert colors.paint(column, cell) == colored
    assert plain(colored) == cell


def fleet(gateway: FakeGateway) -> None:
    gateway.node("n1", taints=[{"key": "a", "effect": "NoExecute"}], unschedulable=True)
    gateway.node("a-node-with-a-long-name")
    gateway.objects["/api/v1/nodes/n1"]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}


WORDS = [("get", "nodes", "-o", "wide"), ("describe", "node", "n1")]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_colours_change_nothing_but_colours(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    fleet(gateway)
    without, colored = said(run(*words)), said(run(*words, "--color", "always"))
    assert "\x1b" not in without[1]
    assert f"{RED}a:NoExecute{RESET}" in colored[1]
    assert plain(colored[1]) == without[1]
    assert said(run("--color=never", *words)) == without


def test_what_is_chosen_for_one_command_is_not_for_the_next(gateway: FakeGateway, run: Run) -> None:
    fleet(gateway)
    assert "\x1b" in said(run("get", "nodes", "--color=always"))[1]
    assert not colors.wanted()
    assert "\x1b" not in said(run("get", "nodes"))[1]


def test_documents_have_no_colours(gateway: FakeGateway, run: Run) -> None:
    fleet(gateway)
    for form in ("json", "yaml", "name"):
        assert "\x1b" not in said(run("get", "nodes", "-o", form, "--color", "always"))[1]


@pytest.mark.parametrize(("color", "styled"), [(colors.Color.ALWAYS, True), (colors.Color.NEVER, False)])
def test_lines_of_events_are_styled_as_chosen(
    color: colors.Color, capsys: pytest.CaptureFixture[str], *, styled: bool
) -> None:
    reset = colors.choose(color)
    colors.console().print("line", style="bold red")
    reset()
    assert ("\x1b" in capsys.readouterr().out) is styled


def test_another_word_is_refused(run: Run) -> None:
    code, _, err = said(run("get", "nodes", "--color", "sometimes"))
    assert code == 2
    assert "'sometimes' is not one of 'auto', 'always', 'never'" in " ".join(err.replace("│", " ").split())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{found.server_address[1]}"
    found.shutdown()


@pytest.mark.parametrize(
    ("words", "environment", "colored"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"NO_COLOR": ""}, True),  # no-color.org: when present and not an empty string
        ((), {"TERM": "dumb"}, False),
        (("--color", "never"), {}, False),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
    ],
)
def test_a_terminal_has_colours(
    server: str, tmp_path: Path, words: tuple[str, ...], environment: dict[str, str], *, colored: bool
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "TERM"}}
    own = {"MOORAGE_SERVER": server, "MOORAGE_STATE_DIR": str(tmp_path), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "moorage.cli", "get", "node", "n1", *words],
            env={**kept, **own, **environment},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            check=True,
        )
        text = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Ready" in text
    assert (f"{GREEN}Ready{RESET}" in text) is colored
