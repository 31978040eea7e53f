"""Templates. Values are inserted as text, never as markup, unless a template marks them as safe."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final
from urllib.parse import quote, urlencode

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from moorage.console.fleet_index import MARKS
from moorage.console.host import LIVE, path_of
from moorage.console.kinds import TARGETS, ZONE, ApiKind, Kinds
from moorage.console.pictures.chain_graph import ChainLink, chain_graph
from moorage.console.views import Content, PageView
from moorage.decide.kubernetes.durations import age, human, rate_text
from moorage.decide.kubernetes.object_texts import until
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, POD
from moorage_schemas.times import parse_time

_PACKAGE: Final = "moorage.console"
PLACED_KINDS: Final = frozenset({POD, *BINDING_KINDS, "Placement"})
"""The kinds of workloads that decisions are about."""

HOME_ONLY: Final = ("clusters", "deadletters", "login", "logout", "pauses", "simulate", "static")
"""The pages that there are for the home fleet alone, by the first part of their address below `/console`."""

_KEPT: Final = "|".join((*HOME_ONLY, "actions/pause"))
_ADDRESS: Final = re.compile(rf'(\s(?:href|action)=")(/console(?=["/?])(?!/(?:{_KEPT})["/?]))')
"""The beginning of an address of a page that there is in each fleet."""

_MEDIA: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class StaticFiles:
    """The files beside the pages, in memory. Their addresses change with what is in them."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str]] = {}
        self._marks: dict[str, str] = {}
        for entry in resources.files(_PACKAGE).joinpath("static").iterdir():
            media = next((media for suffix, media in _MEDIA.items() if entry.name.endswith(suffix)), "")
            if media:
                content = entry.read_bytes()
                self._files[entry.name] = content, media
                self._marks[entry.name] = hashlib.sha256(content).hexdigest()[:16]

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Return the content of a file and its media type. None if it does not exist."""
        return self._files.get(name)

    def address(self, name: str) -> str:
        """Return the address of a file."""
        return f"/console/static/{name}?v={self._marks[name]}"


class Pages:
    """Makes pages of templates."""

    def __init__(self, static: StaticFiles, kinds: Kinds) -> None:
        self._kinds = kinds
        self._environment = Environment(
            loader=FunctionLoader(_source),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals.update(
            static=static.address,
            target_url=target_url,
            workload_url=workload_url,
            object_url=object_url,
            url=address_of,
            chain_picture=_chain_picture,
        )
        self._environment.filters.update(
            human=human,
            rate=rate_text,
            ago=_ago,
            due=until,
            clock=_clock,
            zip_same=_zip_same,
            mark_text=MARKS.__getitem__,
            workload_link=self._workload_link,
            plural_of=lambda kind: kinds.named(kind).plural,
            as_yaml=_as_yaml,
            breakable=_breakable,
        )

    async def compile(self) -> None:
        """Compile all templates, one at a time, and let others work in between."""
        for name in _templates(resources.files(_PACKAGE).joinpath("templates")):
            self._environment.get_template(name)
            await asyncio.sleep(0)

    def page(self, view: PageView, content: Content, **more: Any) -> str:
        """Return the HTML of a whole page."""
        context = {**_of(view), **content.context, **more}
        parts = {name: Markup(text) for name, text in self.parts(view, content).items()}  # noqa: S704 - escaped in its own template
        live = _live_address(view) if content.kinds else ""
        html = self._environment.get_template(content.template).render(context, parts=parts, live=live)
        return staying_in(view.cluster, html)

    def parts(self, view: PageView, content: Content) -> dict[str, str]:
        """Return the HTML of each part of a page, by its name."""
        context = {**_of(view), **content.context}
        made = {name: self._environment.get_template(one).render(context) for name, one in content.parts.items()}
        return {name: staying_in(view.cluster, _in_its_place(name, html)) for name, html in made.items()}

    def bare(self, template: str, **context: Any) -> str:
        """Return the HTML of a page that needs no user."""
        return self._environment.get_template(template).render(context)

    def _workload_link(self, own: str, namespace: str) -> Markup:
        """Return a link to a workload by its name in objects about it: `web-0`, or `deployment:web`."""
        word, colon, rest = own.partition(":")
        definition = self._kinds.called(word) if colon else None
        kind, name = (definition.kind, rest) if definition is not None else (POD, own)
        return Markup('<a href="{}"><span class="dim">{}/</span>{}</a>').format(
            workload_url(kind, namespace, name), namespace, own
        )


def _of(view: PageView) -> dict[str, Any]:
    """Return the globals of every template."""
    field = Markup('<input type="hidden" name="csrf" value="{}">').format(view.session.csrf)
    return {"view": view, "now": view.now, "csrf": lambda: field}


def replacing(name: str, html: str) -> str:
    """Return the HTML of a part as a page that is open takes it: in the place of the one that it shows."""
    place = _place(name)
    return html.replace(place, f'{place} hx-swap-oob="outerMorph"', 1)


def staying_in(cluster: str, html: str) -> str:
    """Return the HTML of a page of a cluster, whose links and forms lead to pages of that cluster where there are such.

    Templates need not know of clusters, and neither does what they read: a page is the same for each fleet, and only
    its addresses differ. Texts cannot look like such an attribute, because quotes in them are escaped.
    """
    return _ADDRESS.sub(rf"\1{path_of(cluster)}\2", html) if cluster else html


def target_url(kind: str, name: str) -> str:
    """Return the address of a target's page."""
    return f"/console/targets/{quote(kind, safe='')}/{quote(name, safe='')}"


def workload_url(kind: str, namespace: str, name: str) -> str:
    """Return the address of a workload's page."""
    return "/console/workloads/" + "/".join(quote(part, safe="") for part in (kind, namespace or "-", name))


def object_url(definition: ApiKind, namespace: str, name: str) -> str:
    """Return the address of an object: its own page, if its kind has one."""
    if definition.kind in TARGETS:
        return target_url(definition.kind, name)
    if definition.kind == ZONE:
        return f"/console/zones/{quote(name, safe='')}"
    if definition.kind in PLACED_KINDS:
        return workload_url(definition.kind, namespace, name)
    parts = (definition.plural, namespace or "-", name)
    return "/console/objects/" + "/".join(quote(part, safe="") for part in parts)


def address_of(path: str, **query: Any) -> str:
    """Return an address with parameters. Those that are empty are left out."""
    text = urlencode({name: value for name, value in query.items() if value not in (None, "")})
    return f"{path}?{text}" if text else path


def _place(name: str) -> str:
    return f'<div id="part-{name}" class="part"'


def _in_its_place(name: str, html: str) -> str:
    return f"{_place(name)}>{html}</div>"


def _live_address(view: PageView) -> str:
    return address_of(f"{path_of(view.cluster)}{LIVE}", page=view.address(), since=view.version)


def _templates(folder: Traversable, path: str = "") -> Iterator[str]:
    """Yield the names of the templates in a folder and those below."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _templates(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".html"):
            yield f"{path}{entry.name}"


def _source(name: str) -> str | None:
    found = resources.files(_PACKAGE).joinpath("templates", name)
    return found.read_text("utf-8") if found.is_file() else None


def _ago(when: Any, now: datetime) -> str:
    """Return how long ago a time was. Empty without one."""
    return f"{age(str(when), now)} ago" if when else ""


def _clock(when: Any) -> str:
    """Return a time to the second, for people: `2026-01-01 12:00:00`. Empty without one."""
    if not when:
        return ""
    try:
        found: datetime = parse_time(str(when))
    except ValueError:
        return str(when)
    return f"{found:%Y-%m-%d %H:%M:%S}"


def _chain_picture(chain: Mapping[str, Any]) -> Markup:
    """Return the picture of a chain of an explanation."""
    causes = [
        ChainLink(
            one.get("topic") or ("lost" if one.get("lost") else "clock"),
            parse_time(one["time"]) if one.get("time") else None,
        )
        for one in chain["steps"]
    ]
    return chain_graph(str(chain["about"]), causes)


def _zip_same(values: Iterable[str]) -> list[tuple[str, str]]:
    """Return the options of a choice whose values are their own texts."""
    return [(value, value) for value in values]


def _breakable(text: str) -> Markup:
    """Return a taint that wraps at its parts, not within them."""
    return Markup(str(escape(text)).replace("/", "/<wbr>").replace(":", ":<wbr>"))  # noqa: S704 - the text is escaped


def _as_yaml(value: Any) -> str:
    """Return a part of an object as YAML."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
