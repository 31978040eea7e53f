"""The credentials of a kubeconfig, which may be replaced while a bridge runs.

A token of a service account ends. In a pod the kubeconfig is a file of a Secret, and the kubelet writes what is new in
it.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config
from yaml import YAMLError

_log = structlog.get_logger(__name__)

_AGAIN: Final = 5.0
"""Seconds before the file is read again. Many requests may be refused at once."""

_TOKEN: Final = "BearerToken"  # noqa: S105 - the name under which it is kept


class Kubeconfig:
    """A kubeconfig, and the user of one of its contexts.

    Args:
        file: empty means that of `KUBECONFIG` or `~/.kube/config`.
        context: empty for its current one.
    """

    def __init__(self, file: str = "", context: str = "") -> None:
        self._file, self._context = file, context
        self._read_at = float("-inf")

    async def load(self, configuration: Configuration) -> None:
        """Write into a configuration what the file says.

        Raises:
            ConfigException: it is no kubeconfig, or has no such context.
            OSError: it cannot be read.
        """
        await load_kube_config(
            config_file=self._file or None, context=self._context or None, client_configuration=configuration
        )

    async def renew(self, configuration: Configuration) -> None:
        """Write into a configuration the token that the file has now, because the present one does not count.

        Certificates stay those of the start. So does the token while the file cannot be read.
        """
        now = asyncio.get_running_loop().time()
        if now - self._read_at < _AGAIN:
            return
        self._read_at = now
        found = Configuration()
        try:
            await self.load(found)
        except (ConfigException, OSError, YAMLError) as error:
            _log.warning("kubeconfig.not_read", file=self._file, error=str(error))
            return
        token = found.api_key.get(_TOKEN)
        if token and token != configuration.api_key.get(_TOKEN):
            configuration.api_key[_TOKEN] = token
            _log.info("kubeconfig.token_renewed", file=self._file)
