"""Leases of Open Cluster Management: how many renewals may be missed before a lease expires."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

RENEWALS: Final = 5
"""How many times its duration a lease is valid after a renewal, for clusters and for add-ons."""

LEASE_SECONDS: Final = 60
"""The duration of a lease that does not state one."""

DEFAULT_GRACE: Final = timedelta(seconds=RENEWALS * LEASE_SECONDS)

_LONGEST: Final = timedelta(days=36_500)


def lease_grace(seconds: Any) -> timedelta | None:
    """How long a lease with this duration in seconds is valid, a hundred years at most.

    None if the field is absent, 0 or not a number of seconds. Then the lease states no duration.
    """
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
        return None
    return timedelta(seconds=min(RENEWALS * seconds, _LONGEST.total_seconds()))
