"""Signatures of webhooks."""

from __future__ import annotations

import base64

import pytest
from tests.support.receivers import SECRET

from moorage.workers.webhooks.sender import SecretError, keys_of, signature

OTHER = "whsec_" + base64.b64encode(b"k" * 32).decode()


def test_the_vector_of_the_specification() -> None:
    signed = signature(keys_of(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_while_a_secret_is_replaced_both_sign() -> None:
    both = signature(keys_of(f"{OTHER}\n# the old one\n\n{SECRET}\n"), "id", 1, b"{}").split(" ")
    assert both == [signature(keys_of(OTHER), "id", 1, b"{}"), signature(keys_of(SECRET), "id", 1, b"{}")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no secret"),
        ("# nothing", "has no secret"),
        (f"{SECRET}\nsecret", "line 2: must begin with whsec_"),
        ("whsec_!", "line 1: must be base64 after whsec_"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8I", "line 1: must have 24 to 64 bytes, not 15"),
    ],
)
def test_what_is_no_secret_is_refused_without_being_shown(text: str, message: str) -> None:
    with pytest.raises(SecretError) as told:
        keys_of(text)
    assert str(told.value) == message
