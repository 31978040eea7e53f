"""`moorage set`: images, resources and environment of the containers in a pod or in a pod's template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import typer

from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.commands.options import ObjectPlace
from moorage.cli.errors import CliError, ServerError, UsageError
from moorage.cli.render import output, printing

app = typer.Typer(no_args_is_help=True, help="Set images, resources or environment of containers.")

_TRIES: Final = 8

_What = Annotated[list[str], typer.Argument(metavar="KIND NAME… | KIND/NAME… SETTING…", show_default=False)]
_Containers = Annotated[str, typer.Option("-c", "--containers", help="Name of the containers. * for all.")]


class _Change(NamedTuple):
    """What is done to containers."""

    apply: Callable[[JsonObject], bool]
    """Changes a container, and returns whether it is one that is meant."""

    word: str
    meant: str
    """The containers that are meant, for the message that there are none."""


@app.command("image")
def image(
    ctx: typer.Context,
    what: _What,
    *,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    every: options.Every = False,
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Set the images of containers: `moorage set image deployment/web main=web:2`."""
    words, pairs = _split(what)
    if not pairs or any(value is None for value in pairs.values()):
        raise UsageError("at least one image update is required, as CONTAINER=IMAGE")

    def change(container: JsonObject) -> bool:
        new = pairs.get(str(container.get("name")), pairs.get("*"))
        if new is not None:
            container["image"] = new
        return new is not None

    choice = options.Choice(words, None, namespace, selector, every=every)
    _run(
        ctx,
        choice,
        _Change(change, "image updated", f"container named {', '.join(pairs)}"),
        options.Writing(form, dry_run),
    )


@app.command("resources")
def resources(
    ctx: typer.Context,
    what: _What,
    *,
    limits: Annotated[str, typer.Option(help="Such as cpu=200m,memory=512Mi.", show_default=False)] = "",
    requests: Annotated[str, typer.Option(help="Such as cpu=100m,memory=256Mi.", show_default=False)] = "",
    containers: _Containers = "*",
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    every: options.Every = False,
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Set requests and limits of containers."""
    if not limits and not requests:
        raise UsageError("you must specify an update to requests or limits (in the form of --requests/--limits)")
    wanted = {"limits": _amounts(limits), "requests": _amounts(requests)}

    def change(container: JsonObject) -> bool:
        if containers not in {"*", container.get("name")}:
            return False
        there = container.get("resources") or {}
        for name, amounts in wanted.items():
            if amounts:
                there = {**there, name: {**(there.get(name) or {}), **amounts}}
        container["resources"] = there
        return True

    choice = options.Choice(what, None, namespace, selector, every=every)
    _run(
        ctx,
        choice,
        _Change(change, "resource requirements updated", f"container named {containers}"),
        options.Writing(form, dry_run),
    )


@app.command("env")
def env(
    ctx: typer.Context,
    what: _What,
    *,
    listing: Annotated[bool, typer.Option("--list", help="Show the variables.")] = False,
    containers: _Containers = "*",
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    every: options.Every = False,
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Set or remove environment variables of containers: `KEY=VALUE`, `KEY-`."""
    words, pairs = _split(what)
    if not pairs and not listing:
        raise UsageError("at least one environment variable must be provided")

    def change(container: JsonObject) -> bool:
        if containers not in {"*", container.get("name")}:
            return False
        there = [one for one in container.get("env") or [] if one.get("name") not in pairs or pairs[one["name"]]]
        named = {one.get("name"): index for index, one in enumerate(there)}
        for name, value in pairs.items():
            if value is None:
                there = [one for one in there if one.get("name") != name]
            elif name in named:
                there[named[name]] = {"name": name, "value": value}
            else:
                there.append({"name": name, "value": value})
        container["env"] = there
        if listing:
            output.write("".join(f"{one['name']}={one.get('value', '')}\n" for one in there))
        return True

    choice = options.Choice(words, None, namespace, selector, every=every)
    if listing and not pairs:
        with connect(ctx) as client:
            options.each(choice.places(client), lambda place: _show(client, place, change))
        return
    _run(ctx, choice, _Change(change, "env updated", f"container named {containers}"), options.Writing(form, dry_run))


def _show(client: Client, place: ObjectPlace, change: Callable[[JsonObject], bool]) -> None:
    for container in _containers(client.get(*place)):
        output.line(f"# {place.kind.called(place.name)}, container {container.get('name')}")
        change(container)


def _run(ctx: typer.Context, choice: options.Choice, change: _Change, writing: options.Writing) -> None:
    def once(client: Client, place: ObjectPlace) -> None:
        import copy  # noqa: PLC0415 - few commands need it

        from moorage.core.apimachinery.patching import merge_patch  # noqa: PLC0415 - as above

        before = client.get(*place)
        after = copy.deepcopy(before)
        hits = [change.apply(container) for container in _containers(after)]
        if not any(hits):
            raise CliError(f"unable to find {change.meant} in {place.kind.called(place.name)}")
        patch = merge_patch.two_way(before, after)
        if patch and writing.sends:
            version = {"resourceVersion": before["metadata"].get("resourceVersion")}
            patch = {**patch, "metadata": {**(patch.get("metadata") or {}), **version}}
            after = client.patch(*place, patch, options=writing.parameters)
        if patch or writing.results.wants_objects:
            writing.results.show(place.kind, place.name, change.word, after)

    def one(client: Client, place: ObjectPlace) -> None:
        for left in reversed(range(_TRIES)):
            try:
                once(client, place)
            except ServerError as error:
                if error.reason != "Conflict" or not left:
                    raise
            else:
                return

    with connect(ctx) as client:
        options.each(choice.places(client), lambda place: one(client, place))


def _containers(found: JsonObject) -> list[JsonObject]:
    """Return the containers of a pod, or of the template of pods."""
    spec = found.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") if "template" in spec else spec
    parts: list[Any] = [*((pod or {}).get("initContainers") or []), *((pod or {}).get("containers") or [])]
    return [one for one in parts if isinstance(one, dict)]


def _split(words: list[str]) -> tuple[list[str], dict[str, str | None]]:
    named = [word for word in words if "=" not in word and not word.endswith("-")]
    pairs: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            pairs[key] = value
        elif word.endswith("-"):
            pairs[word.removesuffix("-")] = None
    return named, pairs


def _amounts(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, text.split(",")):
        name, equals, amount = part.partition("=")
        if not equals or not amount:
            raise UsageError(f"invalid argument syntax {part!r}, expected <resource>=<value>")
        found[name] = amount
    return found
