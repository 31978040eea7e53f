"""The contract in other people's formats: JSON Schema, AsyncAPI, and what may change in it."""

from __future__ import annotations
