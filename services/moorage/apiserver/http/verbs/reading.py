"""The verbs `get`, `list` and `watch`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moorage.apiserver.http.backend import ONE, Backend, media_of
from moorage.apiserver.http.messages import answers, tables
from moorage.apiserver.http.messages.negotiation import PROTOBUF, YAML, AnswerForm, accepted
from moorage.apiserver.http.messages.options import LONGEST_WATCH, ListOptions, list_options, resource_version
from moorage.apiserver.http.messages.representations import PIECE, EventEncoder, JsonEvents, ListHead, ProtobufEvents
from moorage.apiserver.http.messages.selectors import Predicate, Selector, selector
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs import paging, watch
from moorage.apiserver.http.verbs.paging import ListSnapshot, Snapshots
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.api_errors import StatusError, bad_request
from moorage.apiserver.storage.shown_objects import ShownObject

_GONE: Final = 410


@dataclass(frozen=True, slots=True)
class VisibleObjects:
    """The part of a kind's objects that a user may see."""

    sees: Predicate
    """Returns whether the user sees an object. It gets the object, or the part that selectors read (`selectable`)."""

    changed: Callable[[], Awaitable[None]]
    """Returns when others may be seen than before. A watch ends then as if its version were too old, so that its client
    lists again."""


class ReadVerbs:
    """Answers requests that only read."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._snapshots = Snapshots(backend.store)
        self._events_shared = watch.SharedEvents()

    async def get(self, request: Request, path: ResourcePath) -> Response:
        """Return one object. Raises StatusError: 404 if there is none, 406 if the accepted forms cannot be sent."""
        representation = self._backend.representation(request, path.kind)
        await self._reach(resource_version(request.query_params.get("resourceVersion", "")))
        shown = self._backend.present(path)
        return answers.answer(200, representation.one(path.kind, shown), representation.media_type)

    async def listed(self, request: Request, path: ResourcePath, filtered: VisibleObjects | None = None) -> Response:
        """Return a list, or the changes of one if the request is a watch.

        `filtered` is what the caller sees. None if that is everything.

        Raises:
            StatusError: the options are not allowed, or cannot be met.
        """
        options = list_options(request.query_params, is_watch=path.is_watched)
        fields = ",".join(filter(None, (options.fields, f"metadata.name={path.name}" if path.name else "")))
        selects = selector(options.labels, fields, path.kind.definition)
        selects = selects.also(filtered.sees) if filtered is not None else selects
        if options.is_watch:
            return await self._watch(request, path, options, selects, filtered)
        representation = self._backend.representation(request, path.kind)
        snapshot = await self._snapshot(path, options)
        page, head = await self._page(path, options, snapshot, selects)
        pieces = representation.listed(path.kind, head, page)
        return await answers.in_pieces(request, pieces, representation.media_type)

    async def chosen(self, path: ResourcePath, options: ListOptions) -> tuple[list[bytes], ListHead]:
        """Return the JSON of the objects that a request selects, and the head of their list.

        A limit counts as in a list.

        Raises:
            StatusError: 400 if a selector cannot be read, 410 if the list that is continued is no longer kept.
        """
        selects = selector(options.labels, options.fields, path.kind.definition)
        page, head = await self._page(path, options, await self._snapshot(path, options), selects)
        return [json for json in page if json is not None], head

    async def _snapshot(self, path: ResourcePath, options: ListOptions) -> ListSnapshot:
        kind, namespace = path.kind.kind, path.namespace
        if options.token:
            token = paging.parse(options.token)
            if options.version not in {"", "0"}:
                raise bad_request("specifying resource version is not allowed when using continue")
            return self._snapshots.rest(kind, namespace, token)
        version = resource_version(options.version, "invalid resource version: ")
        await self._reach(version)
        if options.match == "Exact" or (options.limit and version and not options.match):
            found = self._snapshots.at(kind, namespace, version)
            if found is None:
                raise StatusError(410, "The resourceVersion for the provided list is too old.", reason="Expired")
            return found
        return self._snapshots.present(kind, namespace)

    async def _page(
        self, path: ResourcePath, options: ListOptions, snapshot: ListSnapshot, selects: Selector
    ) -> tuple[Iterator[bytes | None], ListHead]:
        """Return the objects of one part of a list, and its head."""
        objects, start, limit = snapshot.objects, snapshot.start, options.limit
        if not limit:
            return _selected(objects, range(start, len(objects)), selects), ListHead(snapshot.version)
        numbers: list[int] = []
        for place in range(start, len(objects)):
            if len(numbers) > limit:
                break
            if selects.is_empty or selects.selects(objects[place].json):
                numbers.append(place)
            if place % PIECE == 0:
                await asyncio.sleep(0)
        page = _selected(objects, numbers[:limit], Selector())
        if len(numbers) <= limit:
            return page, ListHead(snapshot.version)
        self._snapshots.keep(path.kind.kind, path.namespace, snapshot, time.monotonic())
        remaining = len(objects) - start - limit if selects.is_empty else 0
        return page, ListHead(snapshot.version, paging.token_for(snapshot.version, objects[numbers[limit]]), remaining)

    async def _watch(
        self,
        request: Request,
        path: ResourcePath,
        options: ListOptions,
        selects: Selector,
        filtered: VisibleObjects | None,
    ) -> Response:
        form = accepted(request, watched_media_of(path.kind), ONE)
        self._backend.watches.begin(request)
        version = resource_version(options.version)
        await self._reach(version)
        begins = version or None
        if options.initial_events is not None:
            # No present object is older than any version, so all of them are shown, or none.
            begins = None if options.initial_events else version or self._backend.store.version
        asked = watch.Watch(
            kind=path.kind,
            namespace=path.namespace,
            selected=selects,
            version=begins,
            bookmarks=options.bookmarks,
            initial_end=bool(options.initial_events),
            timeout=min(options.timeout or LONGEST_WATCH, LONGEST_WATCH),
            encoder=self._events(request, form),
        )
        media = f"{PROTOBUF};stream=watch" if form.media == PROTOBUF else form.media
        try:
            number = watch.start(self._backend.store, asked)
        except StatusError as error:
            if error.code != _GONE:
                raise
            # A watch has begun once its options are read, so that clients find what ends it among its events.
            return Response(asked.encoder.error(error.document()), media_type=media)

        async def events() -> AsyncIterator[bytes]:
            with self._backend.metrics.watches.track_inprogress():
                found = watch.events(self._backend.store, asked, number, self._events_shared)
                async for event in found if filtered is None else self._until_changed(found, asked, filtered):
                    yield event

        return StreamingResponse(events(), media_type=media)

    async def _until_changed(
        self, events: AsyncIterator[bytes], asked: watch.Watch, filtered: VisibleObjects
    ) -> AsyncIterator[bytes]:
        """Yield the events of a watch, until others may be seen than before."""
        changed = asyncio.ensure_future(filtered.changed())
        following: asyncio.Future[bytes] | None = None
        try:
            while True:
                following = asyncio.ensure_future(anext(events))
                await asyncio.wait({following, changed}, return_when=asyncio.FIRST_COMPLETED)
                if changed.done():
                    store = self._backend.store
                    yield asked.encoder.error(watch.expired(store.version, store.version).document())
                    return
                try:
                    yield following.result()
                except StopAsyncIteration:
                    return
        finally:
            for one in (changed, following):
                if one is not None:
                    one.cancel()

    def _events(self, request: Request, form: AnswerForm) -> EventEncoder:
        if form.media == PROTOBUF:
            return ProtobufEvents(form)
        include = tables.included(request.query_params.get("includeObject", ""))
        return JsonEvents(form, include, self._backend.clock.now)

    async def _reach(self, version: int) -> None:
        """Wait until a resource version is shown here."""
        await watch.fresh(self._backend.store, version)


def watched_media_of(kind: ServedKind) -> tuple[str, ...]:
    """Return the media types in which changes of objects of a kind can be sent, the default first."""
    return tuple(media for media in media_of(kind) if media != YAML)


def _selected(objects: Sequence[ShownObject], numbers: Sequence[int], selects: Selector) -> Iterator[bytes | None]:
    for number in numbers:
        json = objects[number].json
        yield json if selects.selects(json) else None
