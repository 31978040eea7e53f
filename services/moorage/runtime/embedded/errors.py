"""Errors of the embedded broker, with a message that says what a person can do."""

from __future__ import annotations


class EmbeddedKafkaError(RuntimeError):
    """The embedded Kafka could not do what was requested.

    Attributes:
        what: What failed, in one sentence.
        why: The reason, as far as it is known.
        action: What to do about it.
        log: The last lines of the broker's own log; empty when it never ran.
    """

    def __init__(self, what: str, *, why: str, action: str, log: str = "") -> None:
        self.what = what
        self.why = why
        self.action = action
        self.log = log
        text = f"{what}\n  why: {why}\n  do:  {action}"
        if log:
            text += "\n  the broker's last lines:\n" + "\n".join(f"    | {line}" for line in log.splitlines())
        super().__init__(text)


class PortTakenError(EmbeddedKafkaError):
    """The broker ended because another program has taken one of its ports, the client's or the controller's."""
