"""The gateway as the issuer of service accounts' tokens: where others find the keys to check them."""

from __future__ import annotations

from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.authentication.account_tokens import AccountKeys
from moorage.apiserver.http import health

CONFIGURATION: Final = "/.well-known/openid-configuration"
KEYS: Final = "/openid/v1/jwks"

_JWKS: Final = "application/jwk-set+json"
_CACHED: Final = {"cache-control": "public, max-age=3600"}


class Issuer:
    """Shows the public keys.

    Args:
        accounts: has them.
    """

    def __init__(self, accounts: AccountKeys) -> None:
        self._accounts = accounts

    async def configuration(self, request: Request) -> Response:
        """`/.well-known/openid-configuration`: what OpenID Connect calls the discovery document."""
        document = {
            "issuer": self._accounts.issuer,
            "jwks_uri": str(request.url.replace(path=KEYS, query="")),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": self._accounts.algorithms,
        }
        return self._shown(document, "application/json")

    async def keys(self, _: Request) -> Response:
        """`/openid/v1/jwks`: the public keys."""
        return self._shown(self._accounts.key_set(), _JWKS)

    def _shown(self, document: dict[str, Any], media_type: str) -> Response:
        if not self._accounts.algorithms:
            return health.no_page()  # no tokens count here
        return Response(orjson.dumps(document), headers=_CACHED, media_type=media_type)
