"""Tables: topics that are read into states, up to an offset or for ever."""

from __future__ import annotations
