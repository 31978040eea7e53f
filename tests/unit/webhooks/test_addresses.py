"""Which addresses webhooks may be sent to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from tests.support.tables import table

from moorage.workers.webhooks.sender import AddressError, address_of, is_public


@table(
    "address",
    [
        *(
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",  # noqa: S104 - nothing listens there
            "224.0.0.1",
        ),
        *("::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
        *("64:ff9b::a00:1", "2002:a00:1::"),
    ],
)
async def test_other_addresses_than_public_ones_need_allow_private(address: str) -> None:
    async def look_up(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", address]

    assert not is_public(ip_address(address))
    with pytest.raises(AddressError, match=r"hook.example has the address .*needs allowPrivate"):
        await address_of("hook.example", 443, allow_private=False, look_up=look_up)
    assert await address_of("hook.example", 443, allow_private=True, look_up=look_up) == "93.184.216.34"


async def test_the_address_that_was_checked_is_returned() -> None:
    async def look_up(_host: str, _port: int) -> list[str]:
        return ["2606:2800:220:1::1", "93.184.216.34"]

    assert await address_of("hook.example", 443, allow_private=False, look_up=look_up) == "2606:2800:220:1::1"


async def test_a_host_that_is_unknown_has_no_address() -> None:
    async def look_up(_host: str, _port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(AddressError, match=r"nowhere\.example cannot be resolved"):
        await address_of("nowhere.example", 443, allow_private=False, look_up=look_up)
