"""How the governor's two books write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import Topic

SOURCE: Final = "moorage/governor"
"""The CloudEvents source of its records."""

Write = Callable[[Topic, str, str, Model | None, Meta], None]
"""Topic, key, partition key, event and cause of what is written; it is folded in, too."""
