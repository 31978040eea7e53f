"""The table of kubectl cases: what is there first, and which commands follow.

A case is an entry of a file in `cases/`:

    - name: taint-add
      given: [node a]
      run:
        - taint nodes a-<id> key=value:NoSchedule
        - get node a-<id> -o jsonpath={.spec.taints[*].key}

`<id>` is a word of its own for each run of a case, and `<ns>` its namespace, so that cases do not meet. `<dir>` is a
folder with the files of `files`. `given` is made without kubectl, see `objects`. A step is a command line without the
word kubectl, or a mapping:

- `do`: the command line; `stdin`: its standard input; `env`: more environment variables.
- `http`: instead of a command, a request `METHOD PATH`; `body`; `type`, the media type of the body; `accept`; `head`,
  the names of headers of the answer that count, and are in `err`.
- `see`: what of the answer counts, of `code`, `out` and `err`; all three unless it says less.
- `lines`: a regular expression: only lines of the output that it finds count. `sort`: their order does not count.
- `keep`: of an output that is JSON or YAML, only what is at these dotted paths counts; `*` is each item of a list.
- `until`: a regular expression: the command is repeated until its output has it, 15 seconds at most.
- `seconds`: the command is ended after this time, which is no failure. `meanwhile`: commands while it runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOM = Path(__file__).parent
KUBECTL = "kubectl"
KARMADACTL = "karmadactl"
_PARTS = frozenset({"code", "out", "err"})
_STEP = frozenset(
    {
        *(
            "do",
            "stdin",
            "env",
            "http",
            "body",
            "type",
            "accept",
            "head",
            "see",
            "lines",
            "sort",
            "keep",
            "until",
            "seconds",
        ),
        "meanwhile",
    }
)
_CASE = frozenset({"name", "given", "files", "run", "alone"})


@dataclass(frozen=True)
class Step:
    """One command, or one request."""

    words: tuple[str, ...] = ()
    """The command line without the word kubectl. Empty if it is a request."""

    http: str = ""
    body: Any = None
    media_type: str = "application/json"
    accept: str = "application/json"
    head: tuple[str, ...] = ()
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    see: frozenset[str] = _PARTS
    lines: str = ""
    sort: bool = False
    keep: tuple[str, ...] = ()
    until: str = ""
    seconds: float = 0.0
    meanwhile: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Case:
    """A case of the table."""

    name: str
    file: str
    """The name of its file, without the suffix."""

    given: tuple[Any, ...]
    files: Mapping[str, str]
    steps: tuple[Step, ...]
    program: str
    """What runs its commands: `kubectl`, or `karmadactl` for those of the file of that name."""

    alone: bool
    """Whether it touches what other cases see, so that none may run at the same time."""


def table(program: str = KUBECTL) -> tuple[Case, ...]:
    """Every case of a program, in the order of the files and their entries.

    Raises:
        ValueError: a case has a field that is not known, or the name of another case.
    """
    return tuple(case for case in _every() if case.program == program)


@cache
def _every() -> tuple[Case, ...]:
    cases = [case for path in sorted((ROOM / "cases").glob("*.yaml")) for case in _cases(path)]
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two cases have the same name: {', '.join(twice)}")
    return tuple(cases)


def _cases(path: Path) -> Iterator[Case]:
    for entry in yaml.safe_load(path.read_text("utf-8")):
        if wrong := entry.keys() - _CASE:
            raise ValueError(f"{path.name}: {entry.get('name')}: unknown fields {sorted(wrong)}")
        yield Case(
            name=entry["name"],
            file=path.stem,
            given=tuple(entry.get("given", ())),
            files={name: _block(content) for name, content in entry.get("files", {}).items()},
            steps=tuple(_step(f"{path.name}: {entry['name']}", one) for one in entry["run"]),
            program=path.stem if path.stem == KARMADACTL else KUBECTL,
            alone=entry.get("alone", False),
        )


def _step(where: str, given: str | Mapping[str, Any]) -> Step:
    step: Mapping[str, Any] = {"do": given} if isinstance(given, str) else given
    if wrong := step.keys() - _STEP:
        raise ValueError(f"{where}: unknown fields {sorted(wrong)}")
    see = frozenset(str(step["see"]).split()) if "see" in step else _PARTS
    if see - _PARTS:
        raise ValueError(f"{where}: see: {sorted(see - _PARTS)}")
    return Step(
        words=tuple(shlex.split(step.get("do", ""))),
        http=step.get("http", ""),
        body=step.get("body"),
        media_type=step.get("type", "application/json"),
        accept=step.get("accept", "application/json"),
        head=tuple(step.get("head", ())),
        stdin=_block(step.get("stdin", "")),
        env=step.get("env", {}),
        see=see,
        lines=step.get("lines", ""),
        sort=step.get("sort", False),
        keep=tuple(step.get("keep", ())),
        until=step.get("until", ""),
        seconds=step.get("seconds", 0.0),
        meanwhile=tuple(tuple(shlex.split(line)) for line in step.get("meanwhile", ())),
    )


def _block(text: str) -> str:
    """A manifest in the style of blocks, since kubectl takes one that begins with a brace for JSON."""
    if not text.startswith("{"):
        return text
    try:
        return yaml.safe_dump(yaml.safe_load(text), sort_keys=False)
    except yaml.YAMLError:  # on purpose
        return text
