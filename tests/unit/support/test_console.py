"""Console sessions on pages are parsed and compared as intended."""

from __future__ import annotations

import pytest
from tests.support.console import Step, blocks, holds, later, missing, normal, steps
from tests.support.tables import table

PAGE = """\
Text.

```console
$ moorage get nodes
NAME   AGE
$ cat <<END
> $ no command
> END
$ true
```

```sh
not a session
```

```console title="Terminal 3"
11:00:00.000  conditions
```
"""


def test_commands_and_their_output_are_found_in_order() -> None:
    assert steps(PAGE) == [
        Step(4, "", "moorage get nodes", ("NAME   AGE",)),
        Step(6, "", "cat <<END\n$ no command\nEND", ()),
        Step(9, "", "true", ()),
        Step(17, "Terminal 3", "", ("11:00:00.000  conditions",)),
    ]
    assert blocks(PAGE, "sh") == [(13, "", ["not a session"])]


@table(
    ("one", "other"),
    [
        ("at 2026-01-01T00:00:00Z", "at 2027-12-31T23:59:59.123456Z"),
        ("11:43:31.181  taints", "04:32:13.956  taints"),
        ("decided (12s ago)", "decided (3m4s ago)"),
        ("leaves (in 4m49s)", "leaves (in 10s)"),
        ("a1     Ready    <none>   5s    <none>", "a1   Ready   <none>   14m   <none>"),
        ("web-cg97pjwnkm-75bwx left", "web-cg97pjwnkm-wwldf left"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:51234"),
        ("(KubeletStopped, cli/ada)", "(KubeletStopped, cli/root)"),
    ],
)
def test_what_differs_from_run_to_run_is_not_compared(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 every 10s", "1 every 20s"),
        ("tolerated for 300 s", "tolerated for 30 s"),
        ("pod/mailer-1", "pod/mailer-2"),
        ("node/a1 created", "node/a2 created"),
        ("held by EvictionPause/all", "held by EvictionPause/one"),
    ],
)
def test_what_is_the_same_in_every_run_is_compared(one: str, other: str) -> None:
    assert normal(one) != normal(other)


@table(
    ("expected", "actual", "so"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["b", "a"], False),
        (["a"], ["a", "b"], False),
        (["a", "…"], ["a", "b", "c"], True),
        (["a", "…", "c"], ["a", "c"], True),
        (["a", "…", "c"], ["a", "b"], False),
        (["… of 4 left"], ["2950m of 4 left"], True),
        (["… of 4 left"], ["2950m of 8 left"], False),
        ([], [], True),
        ([], ["a"], False),
    ],
)
def test_output_is_in_order_and_whole_unless_lines_are_left_out(
    expected: list[str], actual: list[str], *, so: bool
) -> None:
    assert holds(expected, actual) is so


def test_events_may_come_in_any_order_and_each_stands_for_one() -> None:
    assert missing(["b", "a", "…"], ["a", "x", "b"]) == []
    assert missing(["a", "a"], ["a", "b"]) == ["a"]


@pytest.mark.parametrize(
    ("expected", "actual", "after"),
    [
        (["a", "b"], ["b", "a", "c"], ["c"]),
        (["a"], ["x", "a", "a"], ["a"]),
        (["a", "…"], ["x", "a", "y"], ["y"]),
        (["a"], ["x"], ["x"]),
    ],
)
def test_lines_after_those_on_a_page_are_left(expected: list[str], actual: list[str], after: list[str]) -> None:
    assert later(expected, actual) == after
