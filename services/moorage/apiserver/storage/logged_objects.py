"""Records of objects that are in the object log alone (`Kind.logged`)."""

from __future__ import annotations

from typing import Any

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.durable_log import Write
from moorage_schemas.envelope import Meta
from moorage_schemas.shown import ObjectShown
from moorage_schemas.topics import FLEET, OBJECTS


def logged_write(object_id: ObjectId, document: dict[str, Any] | None, meta: Meta) -> Write:
    """Return the record that shows an object, or that it is gone.

    Args:
        object_id: names it.
        document: the object without a resource version. None if it is gone.
        meta: the attributes of the record. The type is that of the object log.
    """
    event = ObjectShown(object=document) if document is not None else None
    return Write(OBJECTS, object_id.key, FLEET, event, meta._replace(type=OBJECTS.event_type))
