"""A probe: reports one condition of one target. Copy it, and report what you observe.

It is built with `moorage-sdk`, which sends reports in batches, tries again, and repeats the last state, because a
source that is silent about a node for its grace period (40 s unless the fleet sets another) is believed no more. A
shell script does the same over HTTP: see probe.sh.

    python probe.py Node/n1 Ready=False --reason KubeletStopped
    python probe.py Node/n1 DiskPressure=True --every 10        # until Ctrl-C, repeated every 10 s

It speaks to Kafka if MOORAGE_BOOTSTRAP_SERVERS or --bootstrap is set, otherwise to the gateway (MOORAGE_SERVER).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from moorage_schemas.times import format_time
from moorage_sdk import Connection, Probe, Refusal, SdkError

SECONDS = 30.0
"""The time that a single report may take."""


async def run(arguments: argparse.Namespace) -> int:
    """Report once, or until stopped. Returns the exit code."""
    given: dict[str, Any] = {"bootstrap_servers": arguments.bootstrap, "topic_prefix": arguments.prefix}
    connection = Connection(**{name: value for name, value in given.items() if value})
    refusals: list[Refusal] = []
    heartbeat = arguments.every or 0
    async with Probe(arguments.source, connection, heartbeat=heartbeat, on_refusal=refusals.append) as probe:
        # Your probe observes the target here, again and again, and reports what has changed.
        condition, _, status = arguments.condition.partition("=")
        now = datetime.now(UTC)
        identity = await probe.report(
            arguments.target,
            condition,
            status,
            reason=arguments.reason,
            message=arguments.message,
            observed_time=now,
        )
        try:
            async with asyncio.timeout(SECONDS):
                await probe.flush()
        except TimeoutError:
            print("probe: Moorage does not accept the report: it does not answer", file=sys.stderr)
            return 1
        if refusals:
            print(f"probe: the report does not count: {refusals[0].reason}: {refusals[0].message}", file=sys.stderr)
            return 1
        print(identity, format_time(now), arguments.target, condition, flush=True)
        if arguments.every:
            await asyncio.Event().wait()
    return 0


def main() -> int:
    """Read the command line and report. Returns 0 if Moorage has the report."""
    parser = argparse.ArgumentParser(description="Report a condition of a target to Moorage.")
    parser.add_argument("target", help="Kind/name, such as Node/n1")
    parser.add_argument("condition", help="TYPE=STATUS, such as Ready=False")
    parser.add_argument("--reason", default="", help="the reason as one word")
    parser.add_argument("--message", default="", help="the reason as text")
    parser.add_argument("--source", default="examples/probe", help="the source of the report")
    parser.add_argument("--every", type=float, default=0, metavar="SECONDS", help="repeat the report at this interval")
    parser.add_argument("--bootstrap", default="", help="Kafka's addresses")
    parser.add_argument("--prefix", default="", help="the first part of the topic names")
    logging.basicConfig(level=logging.WARNING, format="probe: %(message)s")
    try:
        return asyncio.run(run(parser.parse_args()))
    except SdkError as error:
        print(f"probe: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
