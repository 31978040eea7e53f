"""A probe: reports one condition of one target. Copy it, and report what you observe.

It needs two packages, `moorage-schemas` (the contract) and `aiokafka`, and writes straight to the topic that third
parties may write to. A probe that can reach only the gateway does the same over HTTP: see probe.sh.

    python probe.py Node/n1 Ready=False --reason KubeletStopped
    python probe.py Node/n1 DiskPressure=True --every 10        # a heartbeat every 10 s

Every report is a heartbeat of its source. A source that is silent about a node for its grace period (40 s unless
`MOORAGE_SOURCE_GRACE_PERIODS` says otherwise) is believed no more: what it said becomes Unknown. So a real probe
reports again and again, four times in that period or so, whether something has changed or not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import uuid
from datetime import UTC, datetime

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.refs import TargetRef
from moorage_schemas.times import format_time
from moorage_schemas.topics import CONDITION_REPORTS


async def send(producer: AIOKafkaProducer, topic: str, report: ConditionReported) -> str:
    """Send one report as a CloudEvent in binary mode. Returns its id when Kafka has it."""
    meta = Meta(
        id=str(uuid.uuid4()),
        source=report.source,
        type=report.event_type,
        time=report.observed_time,
        subject=report.target.key,
    )
    await producer.send_and_wait(
        topic,
        key=report.target.key.encode(),  # the target's key, so that its reports stay in order
        value=report.model_dump_json().encode(),
        headers=to_headers(meta),
    )
    return meta.id


def observe(arguments: argparse.Namespace) -> ConditionReported:
    """The report as of now. Your probe should observe the target instead of reading the command line."""
    condition, _, status = arguments.condition.partition("=")
    return ConditionReported(
        target=TargetRef.parse(arguments.target),
        type=condition,
        status=status,
        reason=arguments.reason,
        message=arguments.message,
        observed_time=datetime.now(UTC),
        source=arguments.source,
    )


async def run(arguments: argparse.Namespace) -> None:
    """Report once or repeatedly."""
    topic = CONDITION_REPORTS.name(arguments.prefix)
    report = observe(arguments)
    producer = AIOKafkaProducer(bootstrap_servers=arguments.bootstrap, acks="all", enable_idempotence=True)
    try:
        await producer.start()
        while True:
            print(
                await send(producer, topic, report),
                format_time(report.observed_time),
                report.target,
                report.type,
                flush=True,
            )
            if not arguments.every:
                return
            await asyncio.sleep(arguments.every)
            report = observe(arguments)
    finally:
        await producer.stop()


def main() -> int:
    """Read the command line and report. Returns 0 if Kafka has the report."""
    parser = argparse.ArgumentParser(description="Report a condition of a target to Moorage.")
    parser.add_argument("target", help="Kind/name, such as Node/n1")
    parser.add_argument("condition", help="TYPE=STATUS, such as Ready=False")
    parser.add_argument("--reason", default="", help="the reason as one word")
    parser.add_argument("--message", default="", help="the reason as text")
    parser.add_argument("--source", default="examples/probe", help="the source of the report")
    parser.add_argument("--every", type=float, default=0, metavar="SECONDS", help="repeat the report at this interval")
    parser.add_argument("--bootstrap", default=os.environ.get("MOORAGE_BOOTSTRAP_SERVERS", "127.0.0.1:9092"))
    parser.add_argument("--prefix", default=os.environ.get("MOORAGE_TOPIC_PREFIX", "moorage"))
    try:
        asyncio.run(run(parser.parse_args()))
    except ValidationError as error:
        for problem in error.errors():
            field = ".".join(map(str, problem["loc"]))
            print(f"probe: {field}: invalid value {problem['input']!r}: {problem['msg']}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"probe: the report is invalid: {error}", file=sys.stderr)
        return 2
    except (KafkaError, OSError) as error:
        print(f"probe: Kafka does not accept the report: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
