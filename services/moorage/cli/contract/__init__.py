"""The contract as JSON Schema and AsyncAPI, and the check for breaking changes."""

from __future__ import annotations
