"""The runtime's errors."""

from __future__ import annotations

EXIT_STUCK = 75
"""The exit code of a process that its watchdog ended because it made no progress. It should be started again."""

EXIT_FAILED = 70
"""The exit code of a process that ended itself after an error that it cannot handle."""


class RuntimeFailure(Exception):  # noqa: N818 - the name states what happened, not a mistake
    """The runtime cannot start, or cannot continue. The message says why, and what to do."""


class TopicsError(RuntimeFailure):
    """The topics in the cluster are not usable: some are missing, or their partition counts differ."""


class EncodeError(Exception):
    """An emitted record cannot be written: it is too large, or its partition is not the owner's."""


class TablesTooOld(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """Deletions may have been missed, so everything must be read again; see `table_age`."""


class StartAfresh(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """Discard everything that was read and the partition's producer, and start again. The message gives the reason."""


def first_of(error: BaseException) -> BaseException:
    """The first error that is not an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
