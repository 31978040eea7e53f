"""The runtime's errors."""

from __future__ import annotations

EXIT_STUCK = 75
"""The exit code of a process that its watchdog has ended because it made no progress. It should be started again."""

EXIT_FAILED = 70
"""The exit code of a process that has ended itself after an error that it cannot work around."""


class RuntimeFailure(Exception):  # noqa: N818 - the name states what happened, not a mistake
    """The runtime cannot start, or cannot continue. The message says why, and what to do."""


class TopicsError(RuntimeFailure):
    """The topics in the cluster are not usable: some are missing, or their partition counts differ."""


class EncodeError(Exception):
    """What a service emitted cannot be written: it is too large, or goes to a partition that is not its owner's."""


class TablesTooOld(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """What was read may lack later deletions, so everything must be read again; see `table_age`."""


class StartAfresh(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """Throw away what was read, and the partition's producer, and start again. The message gives the reason."""
