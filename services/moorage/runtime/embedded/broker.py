"""A real, single-node Apache Kafka (KRaft) as a child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from moorage.runtime.embedded import config, jars
from moorage.runtime.embedded.broker_users import BrokerUsers
from moorage.runtime.embedded.data_folder import (
    BrokerState,
    DataDir,
    EmbeddedKafkaError,
    PortTakenError,
    default_data_dir,
)
from moorage.runtime.embedded.warmup import SUPERVISOR
from moorage.runtime.process.shared_files import write_whole
from moorage.runtime.settings.environment import KAFKA_VERSION
from moorage.runtime.settings.state_folders import make_private, other_state_folder

_POLL = 0.03  # seconds between two checks of something that no event reports
_ENDED_POLL = 0.5  # the same for whether a broker that runs has ended
_ROOM_MB = 100  # with less, a broker would fail within minutes, with a less helpful message
_PORT_TRIES = 3
_ALL_LINES = 10_000  # more than are read of a log
_HOST = "127.0.0.1"


class EmbeddedKafka:
    """One broker on one data folder. Use it as an async context manager, or with `start` and `stop`.

    It listens on the loopback interface only, keeps its data between runs, and uses the same port again if that is
    free. It stops when the process that started it ends, even if that process is killed.

    Args:
        data_dir: The folder that holds everything of this broker; the user's own broker when None.
        port: The clients' port. None means the port of the last run, or a free one.
        heap_mb: The maximum size of the JVM's heap, in MB.
        settings: Broker settings by their Kafka names. They replace Moorage's.
        start_timeout: Seconds from the JVM's start until it must answer. The download of the jars is not included.
        stop_timeout: Seconds that the broker may take to stop in order before it is killed.
        detached: Whether the broker continues after this process has ended; `control.stop` stops it.
        users: The users; None for a broker that permits everything to every local user.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        port: int | None = None,
        *,
        heap_mb: int = 512,
        settings: dict[str, str] | None = None,
        start_timeout: float = 60.0,
        stop_timeout: float = 10.0,
        detached: bool = False,
        users: BrokerUsers | None = None,
    ) -> None:
        self._dir = DataDir((data_dir or default_data_dir()).absolute())
        self._wanted_port = port
        self._heap_mb = heap_mb
        self._settings = dict(settings or {})
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._detached = detached
        self._users = users
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._log_begin = 0

    @property
    def data_dir(self) -> Path:
        """The folder of this broker."""
        return self._dir.path

    @property
    def port(self) -> int:
        """The clients' port, available after the first `start`."""
        if self._port is None:
            raise RuntimeError("the embedded Kafka has no port before it is started")
        return self._port

    @property
    def bootstrap(self) -> str:
        """The address for clients (`bootstrap.servers`), available after the first `start`; a restart keeps it."""
        return f"{_HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The JVM's process id; 0 when it is not running."""
        return self._pid if self.running else 0

    @property
    def running(self) -> bool:
        """Whether the broker's process exists (it may be paused)."""
        return self._process is not None and self._process.poll() is None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the broker and return when it answers clients. Does nothing when it is already running.

        Raises:
            EmbeddedKafkaError: It could not be started. The message states the reason and a remedy.
        """
        if self.running:
            return
        lock = await self._take_folder()
        try:
            distribution = await self._prepare()
            await self._launch_on_a_port(distribution, lock)
            if self._users is not None:
                await self._users.make_users(self.bootstrap)
        except BaseException:
            await self.kill()
            raise
        finally:
            os.close(lock)  # from now on the supervisor and the JVM hold it

    async def stop(self) -> None:
        """Stop the broker in order, and kill it after the grace period. Does nothing when it is not running."""
        process = self._process
        if process is None:
            return
        if self._detached:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        elif process.stdin is not None:
            process.stdin.close()  # the supervisor waits for this
        await self._ended()
        self._dir.remember(BrokerState(port=self.port, version=KAFKA_VERSION))

    async def kill(self) -> None:
        """Kill the broker at once (SIGKILL), like a crash. Returns when it has ended."""
        if self.running and self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        elif self._process is not None and self.running:
            self._process.kill()
        await self._ended()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): its connections stay open, and it does not answer."""
        os.kill(self._running_pid(), signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker continue."""
        os.kill(self._running_pid(), signal.SIGCONT)

    async def restart(self) -> None:
        """Stop the broker in order and start it again on the same port."""
        await self.stop()
        await self.start()

    async def wait(self) -> int:
        """Wait until the broker has ended for any reason. Return its exit code (128 + n for signal n)."""
        if self._process is None:
            raise RuntimeError("the embedded Kafka was not started")
        process = self._process
        while (code := process.poll()) is None:  # noqa: ASYNC110 - no event reports it on every platform
            await asyncio.sleep(_ENDED_POLL)
        return code

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines that the broker logged in this run."""
        return self._dir.log_tail(since=self._log_begin, lines=lines)

    def _running_pid(self) -> int:
        if not self.pid:
            raise RuntimeError("the embedded Kafka is not running")
        return self.pid

    async def _ended(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        while process.poll() is None:  # noqa: ASYNC110 - no event reports it on every platform
            await asyncio.sleep(_POLL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._pid = 0

    async def _take_folder(self) -> int:
        """Lock the data folder for this process, or report which process holds it."""
        folder = self._dir.path
        try:
            make_private(folder)
            free = shutil.disk_usage(folder).free // 2**20
            lock = self._dir.lock()
        except OSError as error:
            raise EmbeddedKafkaError(
                f"The embedded Kafka cannot use its data folder {folder}.",
                why=str(error),
                action=f"Make it writable, or {other_state_folder()} to another folder.",
            ) from error
        if lock is None:
            lock = await self._wait_for_orphan()
        if lock is None:
            raise self._held()
        if free < _ROOM_MB:
            os.close(lock)
            raise EmbeddedKafkaError(
                f"There is not enough space for the embedded Kafka's data in {folder}.",
                why=f"{free} MB are free; it needs {_ROOM_MB} MB to start.",
                action=f"Free some space there, or {other_state_folder()} to a folder on another disk.",
            )
        return lock

    async def _wait_for_orphan(self) -> int | None:
        """Wait for a broker whose owner has ended. It is about to stop and release the folder."""
        deadline = time.monotonic() + self._stop_timeout + 5
        while time.monotonic() < deadline:
            state = self._dir.state()
            if state is None or not state.owner or _alive(state.owner):
                return None
            lock = self._dir.lock()
            if lock is not None:
                return lock
            await asyncio.sleep(_POLL)
        return None

    def _held(self) -> EmbeddedKafkaError:
        state = self._dir.state()
        what = f"Another embedded Kafka holds the data folder {self._dir.path}."
        if state is None or not state.pid:
            owner = f" by the process {state.owner}" if state is not None and state.owner else ""
            return EmbeddedKafkaError(
                what, why=f"It is being started or stopped{owner}.", action="Wait a moment and try again."
            )
        end = f"end the process {state.owner} that started it" if state.owner else "end it with `moorage kafka down`"
        return EmbeddedKafkaError(
            what,
            why=f"It runs as process {state.pid} and answers on {state.bootstrap}.",
            action=f"Use it with MOORAGE_BOOTSTRAP_SERVERS={state.bootstrap}, or {end}.",
        )

    async def _prepare(self) -> jars.Distribution:
        """Prepare the jars in a thread. A caller that is cancelled waits for one more jar at most."""
        before = self._dir.state()
        if self._port is None and before is not None:
            self._port = before.port
        self._dir.remember(BrokerState(port=self._port or 0, owner=os.getpid(), version=KAFKA_VERSION))
        stop = threading.Event()
        try:
            return await asyncio.to_thread(jars.prepare, stop=stop)
        finally:
            stop.set()

    async def _launch_on_a_port(self, distribution: jars.Distribution, lock: int) -> None:
        for left in reversed(range(_PORT_TRIES)):
            port = self._choose_port()
            try:
                await self._launch(distribution, lock, port)
            except PortTakenError:
                # Another program took a port between the choice and the start. A port that is still free is kept.
                if not left:
                    raise
            else:
                return

    def _choose_port(self) -> int:
        if self._wanted_port is not None:
            if not _free(self._wanted_port):
                raise EmbeddedKafkaError(
                    f"The embedded Kafka cannot listen on port {self._wanted_port} of {_HOST}.",
                    why="The port is taken by another program, or this user may not use it.",
                    action="End that program, choose another port, or give no port to get a free one.",
                )
            return self._wanted_port
        if self._port and _free(self._port):
            return self._port
        return _any_port()

    async def _launch(self, distribution: jars.Distribution, lock: int, port: int) -> None:
        self._port = port
        try:
            self._process = self._spawn(distribution, lock, port)
        except OSError as error:
            raise EmbeddedKafkaError(
                f"The embedded Kafka could not be started in {self._dir.path}.",
                why=str(error),
                action=f"Free some space there or make it writable, or {other_state_folder()} to another folder.",
            ) from error
        stdout = self._process.stdout
        line = await asyncio.to_thread(stdout.readline) if stdout is not None else b""
        self._pid = int(line or 0)
        owner = 0 if self._detached else os.getpid()
        state = BrokerState(
            port=port,
            pid=self._pid,
            supervisor=self._process.pid,
            owner=owner,
            version=KAFKA_VERSION,
        )
        self._dir.remember(state)
        await self._until_ready()

    def _spawn(self, distribution: jars.Distribution, lock: int, port: int) -> subprocess.Popen[bytes]:
        """Write the configuration and start the supervisor, which starts the JVM."""
        folder = self._dir
        controller_port = _any_port(port)
        secured = {} if self._users is None else self._users.properties(port, controller_port)
        extra = {**secured, **self._settings}
        properties = config.broker_properties(port=port, controller_port=controller_port, extra=extra)
        # It may hold a password.
        write_whole(folder.properties_file, properties.encode(), mode=0o600)
        folder.logging_file.write_text(config.LOGGING)
        config.format_storage(folder.logs, distribution.checkpoint)
        watch = "0" if self._detached else "1"
        self._log_begin = folder.log_size()
        with folder.console_file.open("wb") as console:
            return subprocess.Popen(  # noqa: S603 - every word of the command is ours
                [
                    *(sys.executable, "-I", "-S", str(SUPERVISOR)),
                    *(watch, str(os.getpid()), str(self._stop_timeout), str(lock)),
                    *distribution.command(heap_mb=self._heap_mb),
                ],
                stdin=subprocess.DEVNULL if self._detached else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=console,
                pass_fds=(lock,),
                cwd=folder.path,
                env=config.jvm_environment(),
                start_new_session=True,  # Ctrl-C in a terminal is for the owner, which stops the broker last
            )

    async def _until_ready(self) -> None:
        own = None if self._users is None else self._users.client()
        process, deadline = self._process, time.monotonic() + self._start_timeout
        while process is not None:
            code = process.poll()
            if code is not None:
                raise self._failed(f"Its process ended with code {code}.")
            if await answers(self.bootstrap, client=own):
                return
            if time.monotonic() > deadline:
                raise self._failed(f"It did not answer on {self.bootstrap} within {self._start_timeout:g} s.")
            await asyncio.sleep(_POLL)

    def _failed(self, why: str) -> EmbeddedKafkaError:
        what, log = f"The embedded Kafka {KAFKA_VERSION} did not start.", self.log_tail()
        whole = self.log_tail(_ALL_LINES)  # the reason may be far above the last lines, which are a stack trace
        action = f"See {self._dir.log_file} for the whole log."
        if "BindException" in whole:
            why += " Another program has taken a port that it needs."
            return PortTakenError(what, why=why, action="Start again. " + action, log=log)
        if "No space left on device" in whole:
            why += " The disk is full."
            action = f"Free some space, or {other_state_folder()} to a folder on another disk. {action}"
        elif "insufficient memory" in whole or "Could not reserve enough space" in whole:
            why += f" There is not enough memory for a heap of {self._heap_mb} MB."
            action = "End other programs, or choose a smaller heap. " + action
        return EmbeddedKafkaError(what, why=why, action=action, log=log)


async def answers(bootstrap: str, *, patience: float = 5.0, client: Mapping[str, Any] | None = None) -> bool:
    """Return whether a broker answers and reports its cluster.

    Args:
        bootstrap: Its address, `host:port`. If it is a list, only the first address is tried.
        patience: Seconds to wait for each answer.
        client: Further arguments of the client, such as those of `security`.
    """
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    try:
        # Try a plain connection first, because the client would log an error for each attempt that is too early.
        async with asyncio.timeout(patience):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
    except OSError:  # includes timeouts
        return False
    admin = AIOKafkaAdminClient(
        bootstrap_servers=bootstrap, request_timeout_ms=int(patience * 1000), **dict(client or {})
    )
    try:
        async with asyncio.timeout(patience):
            await admin.start()  # requests ApiVersions
            return bool((await admin.describe_cluster())["brokers"])
    except (KafkaError, OSError):
        return False
    finally:
        with contextlib.suppress(KafkaError, OSError):
            await admin.close()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the JVM does
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def _any_port(besides: int = 0) -> int:
    """Return a port that is free now and is not `besides`."""
    while True:
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            port: int = probe.getsockname()[1]
        if port != besides:
            return port
