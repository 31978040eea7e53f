"""What one can do with a target: taint and untaint, cordon and uncordon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.console import changes
from moorage.console.addresses import path_of
from moorage.console.errors import PageError
from moorage.console.names import TARGETS
from moorage.console.rendering import target_url
from moorage.console.views import Action, Done, Form, PageView, required
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.taints.dialects.table import DIALECTS

_TARGET: Final = "/console/actions/targets/{kind}/{name}"


async def offered(view: PageView, kind: str, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """What the page of a target offers."""
    # Whoever cordons a node of a cluster does so in the cluster. Only changes of the home fleet are simulated.
    is_home = not view.cluster
    return {
        "may_change": await view.rights.may("patch", kind, "", name),
        "can_be_cordoned": is_home and changes.can_be_cordoned(kind),
        "is_cordoned": changes.is_cordoned(kind, document),
        "effects": [str(effect) for effect in DIALECTS[kind].effects],
        "may_simulate": is_home and await view.rights.may_create("simulations"),
        "may_pause": await view.rights.at_home.may("create", "EvictionPause"),
        "whole_name": f"{view.cluster}:{kind}/{name}" if view.cluster else f"{kind}/{name}",
        "back": path_of(view.cluster) + view.address(),
    }


async def taint(view: PageView, form: Form) -> Done:
    """Add a taint."""
    kind, name = await _target(view)
    definition = view.kinds.named(kind)
    key, value, effect = required(form, "key"), form.get("value", "").strip(), required(form, "effect")
    spec = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    await changes.change_target(view, kind, name, lambda found: changes.tainted(definition, found, spec))
    return Done(f"{name} is tainted with {spec}.", target_url(kind, name))


async def untaint(view: PageView, form: Form) -> Done:
    """Remove a taint."""
    kind, name = await _target(view)
    definition = view.kinds.named(kind)
    spec = f"{required(form, 'key')}:{required(form, 'effect')}"
    await changes.change_target(view, kind, name, lambda found: changes.tainted(definition, found, f"{spec}-"))
    present = at(await changes.target_of(view, kind, name), "spec", "taints") or ()
    if any(f"{one.get('key')}:{one.get('effect')}" == spec for one in present):
        return Done(
            f"{spec} stays on {name} for now: its state or a policy wants it, or that is not decided yet.",
            target_url(kind, name),
        )
    return Done(f"{spec} is removed from {name}.", target_url(kind, name))


async def cordon(view: PageView, form: Form) -> Done:
    """Cordon or uncordon a target."""
    kind, name = await _target(view)
    definition = view.kinds.named(kind)
    word = required(form, "do")
    if word not in {"cordon", "uncordon"}:
        raise PageError(400, f"do: invalid value {word[:63]!r}: must be cordon or uncordon")
    wants = word == "cordon"
    await changes.change_target(view, kind, name, lambda found: changes.cordoned(definition, found, cordon=wants))
    return Done(f"{name} is {word}ed.", target_url(kind, name))


async def _target(view: PageView) -> tuple[str, str]:
    kind, name = view.param("kind"), view.param("name")
    if kind not in TARGETS:
        raise PageError(404, f"kind: invalid value {kind[:63]!r}: must be one of {', '.join(TARGETS)}")
    if not await view.rights.may("patch", kind, "", name):
        nothing = changes.write_of(view.kinds.named(kind), "patch", name=name, body={})
        await changes.send(view, nothing)  # the API refuses it, and the audit has that
    return kind, name


ACTIONS: Final = (
    Action(f"{_TARGET}/taint", taint, in_clusters=True),
    Action(f"{_TARGET}/untaint", untaint, in_clusters=True),
    Action(f"{_TARGET}/cordon", cordon),
)
