"""Why credentials are refused. It is logged; the caller only hears that they are."""

from __future__ import annotations


class InvalidCredentialsError(Exception):
    """Credentials that do not count. The text gives the reason, without the credentials themselves."""


class UnknownYetError(Exception):
    """What is needed to check credentials is not there yet. The text says what."""
