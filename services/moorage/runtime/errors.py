"""What can go wrong in the runtime, as types."""

from __future__ import annotations

EXIT_STUCK = 75
"""The exit code of a process that its watchdog ended: no progress, start it again."""

EXIT_FAILED = 70
"""The exit code of a process that ended itself after an error it cannot work around."""


class RuntimeFailure(Exception):  # noqa: N818 - the name of what happened, not of a mistake
    """The runtime cannot go on, or cannot start; the message says why and what to do."""


class TopicsError(RuntimeFailure):
    """The topics in the cluster do not fit: some are missing, or their partition counts differ."""


class EncodeError(Exception):
    """What a service emitted cannot be written: too large, or to a partition that is not its owner's."""


class TablesTooOld(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """What was read may lack deletions that happened meanwhile: read everything anew; see `age`."""


class StartAfresh(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """Throw away what was read, and the partition's producer, and begin anew; the reason is told in words."""
