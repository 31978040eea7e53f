"""What is packed is unpacked again, and texts that are alike take few bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from moorage.runtime.wire.packing import Packer


def pod(number: int) -> bytes:
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in ("not-ready", "unreachable")]
    metadata = {"name": f"app-{number:05}", "namespace": f"team-{number % 7}", "uid": f"{number * 7919:032x}"}
    return json.dumps({"kind": "Pod", "metadata": metadata, "spec": {"tolerations": tolerations}}).encode()


@given(st.lists(st.one_of(st.binary(max_size=200), st.integers(0, 99).map(pod)), max_size=90))
def test_every_text_comes_back_whichever_dictionary_it_was_packed_with(texts: list[bytes]) -> None:
    packer = Packer()
    packed = [packer.pack(text) for text in texts]
    assert [packer.unpack(one) for one in packed] == texts


def test_a_text_comes_back_after_every_dictionary_and_is_small() -> None:
    packer = Packer()
    packed = [packer.pack(pod(number)) for number in range(1_100)]
    assert {one[0] for one in packed} == {0, 1, 2, 3}
    assert [packer.unpack(one) for one in packed] == [pod(number) for number in range(1_100)]
    assert len(packed[0]) > 120
    assert max(map(len, packed[-20:])) < len(pod(1_000)) / 4


def test_the_same_texts_are_packed_to_the_same_bytes() -> None:
    one, other = Packer(), Packer()
    assert [one.pack(pod(number)) for number in range(70)] == [other.pack(pod(number)) for number in range(70)]


def test_a_text_that_is_longer_than_the_window_comes_back() -> None:
    packer, long = Packer(), b"".join(map(pod, range(500)))
    assert len(long) > 100_000
    assert [packer.unpack(packer.pack(long + bytes([number]))) for number in range(9)] == [
        long + bytes([number]) for number in range(9)
    ]
