"""Simulations in a process of their own, one after the other.

A simulation takes the processor for seconds and the memory of a whole copy. Explanations must not wait for it, and what
it takes is given back at its end. A process that takes too long is killed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError

from moorage.insight.copy.snapshot import SnapshotError
from moorage.insight.copy.stack import RestlessError
from moorage.insight.diff.question import SimulationError, SimulationQuestion, answer
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.process.logs import silenced
from moorage.runtime.settings.process_settings import Settings

_log = structlog.get_logger(__name__)

WAITING: Final = 4
"""How many wait for their turn at most."""

_NICE: Final = 10  # the services and the explanations go first
_CHECK_EVERY: Final = 0.05  # seconds between two looks whether there is an answer


class BusyError(Exception):
    """No simulation is possible now. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why there is no result."""

    why: str
    is_wrong: bool
    """Whether the change is what is wrong."""


_FAILED: Final = _Refused("the simulation has failed; the log of the query worker says more", is_wrong=False)


class Simulator:
    """Runs simulations.

    Args:
        settings: the address of Kafka, how long a simulation may take, and the settings of the services.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seconds = settings.simulation_timeout
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, question: SimulationQuestion) -> dict[str, Any]:
        """Return what a change would do.

        Raises:
            SimulationError: the change would be refused.
            BusyError: too many wait, it takes too long, or Kafka does not answer.
        """
        if self._waiting >= WAITING:
            raise BusyError(f"{self._waiting} simulations are already waiting")
        self._waiting += 1
        try:
            async with self._turn:
                found = await self._in_process(question)
        finally:
            self._waiting -= 1
        if isinstance(found, _Refused):
            raise (SimulationError if found.is_wrong else BusyError)(found.why)
        return found

    async def _in_process(self, question: SimulationQuestion) -> dict[str, Any] | _Refused:
        # A fresh interpreter: this one has threads and an event loop, which a forked child would share.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_simulated, args=(theirs, self._settings, question), daemon=True)
        process.start()
        theirs.close()
        try:
            async with asyncio.timeout(self._seconds):
                while not ours.poll():
                    if not process.is_alive() and not ours.poll():
                        return _FAILED
                    await asyncio.sleep(_CHECK_EVERY)
                found: dict[str, Any] | _Refused = await asyncio.to_thread(ours.recv)
                return found
        except TimeoutError:
            _log.warning("simulation.killed", seconds=self._seconds)
            return _Refused(
                f"the simulation took longer than {self._seconds:g} s (MOORAGE_SIMULATION_TIMEOUT)", is_wrong=False
            )
        except EOFError:
            return _FAILED
        finally:
            if process.is_alive():
                process.kill()
            await asyncio.to_thread(process.join)
            ours.close()


def _simulated(connection: Connection, settings: Settings, question: SimulationQuestion) -> None:
    """Simulate, in a process of its own, and send the result."""
    os.nice(_NICE)
    found: dict[str, Any] | _Refused
    try:
        with silenced():
            found = answer(settings, question)
    except SimulationError as error:
        found = _Refused(str(error), is_wrong=True)
    except (SnapshotError, RestlessError) as error:
        found = _Refused(str(error), is_wrong=False)
    except (KafkaError, OSError) as error:
        found = _Refused(f"Kafka does not answer: {describe(error, settings)}", is_wrong=False)
    connection.send(found)
    connection.close()
