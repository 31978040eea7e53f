"""The function with which both books of the governor write records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import Topic

SOURCE: Final = "moorage/governor"
"""The CloudEvents source of the governor's records."""

Write = Callable[[Topic, str, str, Model | None, Meta], None]
"""Takes topic, key, partition key, event and cause of a record, writes the record and folds it in."""
