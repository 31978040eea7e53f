"""What is refused because its namespace is being deleted is no missing permission."""

from __future__ import annotations

import pytest
from tests.component.bridge.cluster import client_of
from tests.support.kube_api import serve_kube_api
from tests.support.virtual_time import virtual_time

from moorage.bridges.kube.api_error import NAMESPACE_TERMINATING, ApiError
from moorage.bridges.kube.client import KubeClient


@virtual_time
@pytest.mark.parametrize("cause", [NAMESPACE_TERMINATING, ""])
async def test_a_namespace_that_is_being_deleted_is_no_missing_permission(
    cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_kube_api() as api:
        client: KubeClient = client_of(api)
        error = ApiError(403, "Forbidden", "is being terminated", causes=(cause,) if cause else ())
        monkeypatch.setattr(ApiError, "of", classmethod(lambda *_: error))
        with pytest.raises(ApiError):
            await client.request("POST", "/api/v1/namespaces/none/nothing", body={})
        missing = [] if cause else ["create nothing in none: is being terminated"]
        assert client.refusals.current() == missing
        await client.close()
