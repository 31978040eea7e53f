"""`deadletters` (moorage.io/v1alpha1): records that were refused, read from their topic, and sent again.

What a letter has of others may contain secrets. They are taken out as from log lines, and a replay sends them
nevertheless.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.intake.dead_letter_replay import DeadLetterReplay
from moorage.apiserver.http.intake.topic_lists import Document, TopicListApi
from moorage.apiserver.http.messages import answers
from moorage.apiserver.http.messages.answers import warn
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.kinds.views import DEAD_LETTER, REPLAY
from moorage.apiserver.storage.topic_pages import TopicRecord, TopicRecords
from moorage.runtime.process.logs import redacted, redacted_field
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.times import format_time
from moorage_schemas.topics import DEAD_LETTERS

_BINARY: Final = "base64"


class DeadLettersApi(TopicListApi[DeadLettered]):
    """Answers requests about dead letters."""

    topic = DEAD_LETTERS

    def __init__(self, backend: Backend, records: TopicRecords | None, replay: DeadLetterReplay) -> None:
        super().__init__(backend, records)
        self._replay = replay

    @override
    async def handle(self, request: Request, path: ResourcePath, cluster: str = "") -> Response:
        if path.subresource == REPLAY:
            paths.check_method(request, "POST")
            return await self._sent_again(request, path, cluster)
        return await super().handle(request, path, cluster)

    async def _sent_again(self, request: Request, path: ResourcePath, cluster: str) -> Response:
        representation = self._backend.representation(request, path.kind)
        record, letter = await self.found(path, cluster)
        replayed = await self._replay.send(request, path, record.name, letter)
        shown = self.document(record, letter)
        shown["status"]["replay"] = replayed.outcome
        response = answers.answer(201, representation.viewed(path.kind, shown), representation.media_type)
        warn(response, replayed.warnings)
        return response

    @override
    def is_in(self, event: DeadLettered, cluster: str) -> bool:
        return False  # letters belong to the home fleet

    @override
    def selected(self, record: TopicRecord, event: DeadLettered) -> Document:
        return self.document(record, event.model_copy(update={"original": ""}))  # no field selector is about it

    @override
    def document(self, record: TopicRecord, event: DeadLettered) -> Document:
        status = event.model_dump(mode="json", by_alias=True)
        for field in ("message", "value", "key"):
            status[field] = redacted(status[field])
        status["headers"] = {name: redacted_field(name, value) for name, value in event.headers.items()}
        status["original"] = _shown(event)
        created = format_time(event.refused_time.replace(microsecond=0))
        return {
            "apiVersion": DEAD_LETTER.api_versions[0],
            "kind": DEAD_LETTER.kind,
            "metadata": {"name": str(record.name), "creationTimestamp": created},
            "status": status,
        }


def _shown(letter: DeadLettered) -> str:
    """Return the original without secrets."""
    if letter.original_encoding != _BINARY:
        return redacted(letter.original)
    try:
        raw = base64.b64decode(letter.original).decode("latin-1")
    except binascii.Error:
        return redacted(letter.original)
    clean = redacted(raw)
    return letter.original if clean == raw else base64.b64encode(clean.encode("latin-1")).decode()
