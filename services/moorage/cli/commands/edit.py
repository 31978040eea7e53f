"""`moorage edit` and `scale`: change an object in your editor, or its number of replicas, as kubectl does."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from moorage.apiserver.machinery.patching import merge_patch
from moorage.cli.api import manifests
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.errors import CliError, ServerError, UnreachableError, warn
from moorage.cli.render import output
from moorage.decide.kubernetes.unstructured import at

_HEAD = """\
# Edit the object below, save it and close the editor. Lines that begin with # are ignored, and an empty file
# cancels the edit. If the change is refused, the editor opens again and shows the reason here.
#
"""
_CANCELLED = "Edit cancelled, no changes made."
_FIXED = ("apiVersion", "kind", "metadata.name", "metadata.namespace")
_TRIES = 12


def edit(ctx: typer.Context, what: options.Words = None, *, namespace: options.Namespace = "default") -> None:
    """Edit an object in your editor.

    The editor is KUBE_EDITOR, or else EDITOR, or else vi.
    """
    with connect(ctx) as client:
        places = options.Choice(what or [], namespace=namespace).places(client)
        if read_only := next((place.kind for place in places if place.kind.read_only), None):
            raise CliError(f"{read_only.plural} are written by the services and cannot be edited")
        for place in places:
            _Edit(client, place).run()


class _Edit:
    """One object in one editor."""

    def __init__(self, client: Client, place: options.ObjectPlace) -> None:
        self._client = client
        self._place = place
        self._called = place.kind.called(place.name)

    def run(self) -> None:
        """Open the editor until the change is accepted or abandoned."""
        before = output.without_owners(self._client.get(*self._place))
        body, problem, sent = output.to_yaml(before), "", ""
        while True:
            edited = _without_comments(_in_editor(_HEAD + problem + body))
            if problem and edited.strip() == sent.strip():
                # The same text again, so the user has given up.
                raise CliError(
                    f"Edit cancelled, no valid changes were saved.\nA copy of your changes is in {_kept(edited)}"
                )
            if not edited.strip():
                warn("Edit cancelled, saved file was empty.")
                return
            try:
                wanted = _read(edited)
                change = merge_patch.two_way(before, wanted)
                if not change:
                    warn(_CANCELLED)
                    return
                _check_fixed(before, wanted)
                self._send(before, change)
            except UnreachableError:
                warn(f"A copy of your changes is in {_kept(edited)}")
                raise
            except CliError as error:
                problem, body, sent = (
                    _as_comment(f"{self._called} was not saved: {error}"),
                    edited,
                    edited,
                )
            else:
                output.line(f"{self._called} edited")
                return

    def _send(self, before: JsonObject, change: JsonObject) -> None:
        """Write the change, and keep concurrent changes of other fields."""
        now = before
        for left in reversed(range(_TRIES)):
            version = at(now, "metadata", "resourceVersion")
            metadata = {**(change.get("metadata") or {}), "resourceVersion": version}
            try:
                self._client.patch(*self._place, {**change, "metadata": metadata})
            except ServerError as error:
                if error.reason != "Conflict" or not left:
                    raise
                now = self._client.get(*self._place)
                if not _untouched(change, before, now):
                    raise
            else:
                return


def _untouched(change: Mapping[str, Any], before: Any, now: Any) -> bool:
    """Return whether the fields that a patch changes are unchanged on the server."""
    for name, value in change.items():
        was = before.get(name) if isinstance(before, Mapping) else None
        there = now.get(name) if isinstance(now, Mapping) else None
        if isinstance(value, dict) and isinstance(was, dict):
            if not _untouched(value, was, there):
                return False
        elif was != there:
            return False
    return True


def _check_fixed(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for field in _FIXED:
        had, now = at(before, *field.split(".")), at(wanted, *field.split("."))
        if had != now:
            raise CliError(f"{field}: invalid value {now!r}: must stay {had!r}")


def _read(text: str) -> JsonObject:
    try:
        found = manifests.load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise CliError(f"error parsing YAML: {manifests.problem(error)}") from None
    if not isinstance(found, dict):
        raise CliError(f"invalid value {str(found)[:80]!r}: must be an object")
    return found


def _in_editor(text: str) -> str:
    """Return a text as the user has edited it."""
    editor = os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="moorage-edit-") as folder:
        file = Path(folder) / "object.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)  # noqa: S603 - the user's own editor
        except (OSError, ValueError) as error:
            raise CliError(f"unable to launch the editor {editor!r}: {error}") from None
        if done.returncode:
            raise CliError(f"there was a problem with the editor {editor!r}: it ended with code {done.returncode}")
        return file.read_text(encoding="utf-8")


def _without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def _as_comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines()) + "#\n"


def _kept(text: str) -> str:
    """Save a text that would be lost to a file, and return its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="moorage-edit-", suffix=".yaml", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    return file.name


def scale(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    replicas: Annotated[int, typer.Option(help="The new number of replicas.", min=0, show_default=False)],
    namespace: options.Namespace = "default",
) -> None:
    """Set the number of replicas of an object."""

    def one(place: options.ObjectPlace) -> None:
        client.patch(*place, {"spec": {"replicas": replicas}}, subresource="scale")
        output.line(f"{place.kind.called(place.name)} scaled")

    with connect(ctx) as client:
        options.each(options.Choice(what or [], namespace=namespace).places(client), one)
