"""Objects in the forms of kubectl's `-o`: tables, JSON, YAML, names, JSONPath, custom columns and Go templates."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.printing.columns import NONE, TableColumn, of
from moorage.cli.errors import CliError, UsageError
from moorage.cli.render import output

Object = Mapping[str, Any]

_TEMPLATES: Final = {
    "jsonpath": "jsonpath",
    "jsonpath-file": "jsonpath",
    "jsonpath-as-json": "jsonpath-as-json",
    "custom-columns": "custom-columns",
    "custom-columns-file": "custom-columns-file",
    "go-template": "go-template",
    "go-template-file": "go-template",
    "template": "go-template",
    "templatefile": "go-template",
}
"""The words that take a template after an equals sign, each with the form that they stand for."""

_FILES: Final = frozenset({"jsonpath-file", "custom-columns-file", "go-template-file", "templatefile"})
_PLAIN: Final = ("table", "wide", "json", "yaml", "name")

WORDS: Final = (*_PLAIN, *(f"{word}=" for word in _TEMPLATES))
"""The words that `-o` takes."""


@dataclass(frozen=True, slots=True)
class OutputForm:
    """How objects are written."""

    word: str = "table"
    template: str = ""

    @property
    def is_table(self) -> bool:
        """Whether the columns of the kind are written."""
        return self.word in {"table", "wide"}

    @property
    def is_custom(self) -> bool:
        """Whether columns are written that the user names."""
        return self.word.startswith("custom-columns")


TABLE: Final = OutputForm()
NAME: Final = OutputForm("name")


def parse(text: str | OutputForm) -> OutputForm:
    """Return the form that a value of `-o` names.

    Raises:
        UsageError: the form does not exist.
        CliError: its file cannot be read.
    """
    if isinstance(text, OutputForm):
        return text
    word, equals, template = text.removeprefix("=").partition("=")  # `-o=json` is `-o json`
    if word in _PLAIN and not equals:
        return OutputForm(word)
    if word not in _TEMPLATES:
        allowed = ",".join(sorted({*_PLAIN, *_TEMPLATES}))
        raise UsageError(
            f'unable to match a printer suitable for the output format "{text}", allowed formats are: {allowed}'
        )
    if not template:
        raise CliError(f"template format specified but no template given: -o {word}=…")
    if word in _FILES:
        try:
            template = Path(template).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"error reading --template {template}, {error}") from None
    return OutputForm(_TEMPLATES[word], template)


def renderer(form: OutputForm) -> Callable[[Object], str]:
    """Return what writes one object, or one list of objects, in a form that has no columns.

    Raises:
        CliError: its template cannot be read.
    """
    if form.word == "json":
        return lambda found: output.to_json(output.without_owners(found))
    if form.word == "yaml":
        return lambda found: output.to_yaml(output.without_owners(found))
    if form.word.startswith("jsonpath"):
        from moorage.cli.render.jsonpath import JsonPath  # noqa: PLC0415 - few commands need it

        path = JsonPath(form.template)
        if form.word == "jsonpath":
            return path.text
        return lambda found: json.dumps(path.values(found), indent=4, ensure_ascii=False) + "\n"
    return _go_template(form.template)


def _go_template(source: str) -> Callable[[Object], str]:
    from gotpl import Template, TemplateError  # noqa: PLC0415 - few commands need it

    own: dict[str, Callable[..., object]] = {"exists": _exists, "base64decode": _base64decode}
    try:
        template = Template(source, name="output", functions=own)
    except TemplateError as error:
        raise CliError(f"error parsing template {source}, {error}") from None

    def render(found: Object) -> str:
        try:
            return template.render(found)
        except TemplateError as error:
            raise CliError(f'error executing template "{source}": {error}') from None

    return render


def _exists(found: Any, *path: Any) -> bool:
    """Return whether there is a value at a path of keys and indexes, as in kubectl's templates."""
    for part in path:
        try:
            found = found[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _base64decode(text: str) -> str:
    from base64 import b64decode  # noqa: PLC0415 - few templates need it

    return b64decode(text).decode("utf-8", "replace")


def dry_run_suffix(dry_run: str) -> str:
    """Return the end of kubectl's line about something that is only tried. Empty for `none`."""
    return {"client": " (dry run)", "server": " (server dry run)"}.get(dry_run, "")


class Results:
    """The output of a command for each object: kubectl's line, or the object in another form."""

    def __init__(self, form: OutputForm, dry_run: str = "none") -> None:
        if form.word == "wide" or form.is_custom:
            raise UsageError(f'unable to match a printer suitable for the output format "{form.word}"')
        self._form = form
        self._suffix = dry_run_suffix(dry_run)
        self._render = None if form.word in {"table", "name"} else renderer(form)
        self._written = 0

    @property
    def wants_objects(self) -> bool:
        """Whether the objects themselves are written."""
        return self._render is not None

    def show(self, kind: ServedKind, name: str, word: str, found: Object) -> None:
        """Write one result. `word` is what was done, such as `labeled`."""
        if self._render is None:
            called = kind.called(name)
            output.line(called if self._form.word == "name" else f"{called} {word}{self._suffix}")
            return
        if self._form.word == "yaml" and self._written:
            output.line("---")
        self._written += 1
        output.write(self._render({"apiVersion": kind.api_version, "kind": kind.kind, **found}))


def custom_columns(form: OutputForm) -> list[TableColumn]:
    """Return the columns of `custom-columns`. Raises CliError if they cannot be read."""
    from moorage.cli.render.jsonpath import relaxed  # noqa: PLC0415 - few commands need it

    if form.word == "custom-columns":
        pairs = [part.partition(":") for part in form.template.split(",")]
        if wrong := next(("".join(pair) for pair in pairs if not pair[1] or not pair[2]), ""):
            raise CliError(f"unexpected custom-columns spec: {wrong}, expected <header>:<json-path-expr>")
        heads, paths = [pair[0] for pair in pairs], [pair[2] for pair in pairs]
    else:
        lines = [line.split() for line in form.template.splitlines() if line.strip()]
        if len(lines) != 2 or len(lines[0]) != len(lines[1]):  # noqa: PLR2004 - the heads, and the paths
            raise CliError(
                "custom-columns-file needs two lines: the heads of the columns, and as many paths below them"
            )
        heads, paths = lines
    return [TableColumn(head, _cell(relaxed(path))) for head, path in zip(heads, paths, strict=True)]


def _cell(path: Any) -> Any:
    return of(lambda found: ",".join(map(go_text, path.values(found))) or NONE)


def go_text(value: Any) -> str:
    """Return a value as Go prints it: `map[a:b]`, `[a b]`, `<nil>`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    return str(value)


def label_columns(labels: Sequence[str]) -> list[TableColumn]:
    """Return the columns of `-L`, whose heads are the last parts of the labels."""

    def column(label: str) -> TableColumn:
        cell = of(lambda found: str(((found.get("metadata") or {}).get("labels") or {}).get(label) or ""))
        return TableColumn(label.rpartition("/")[2].upper(), cell)

    return [column(label) for text in labels for label in text.split(",") if label]
