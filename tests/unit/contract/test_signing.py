"""The bytes that are signed of a report, and the header of a signature."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage_schemas.signing import Signature, SignedReport, parse_signature, signed_bytes

REPORT = SignedReport("Node/n1", "r1", "probe/ä", "io.moorage.condition.reported.v1", b'{"a":1}')
TEXTS = st.text(max_size=5)
REPORTS = st.builds(SignedReport, TEXTS, TEXTS, TEXTS, TEXTS, st.binary(max_size=5))


def test_the_bytes_are_those_of_the_contract() -> None:
    assert signed_bytes(REPORT, "k1", 1767225600) == (
        b"17:moorage-report-v1,2:k1,10:1767225600,7:Node/n1,2:r1,8:probe/\xc3\xa4,"
        b'32:io.moorage.condition.reported.v1,7:{"a":1},'
    )


@given(REPORTS, REPORTS, TEXTS, TEXTS)
def test_different_reports_have_different_bytes(one: SignedReport, other: SignedReport, key: str, key2: str) -> None:
    same = (one, key) == (other, key2)
    assert (signed_bytes(one, key, 1) == signed_bytes(other, key2, 1)) is same


@given(st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1), st.integers(0, 10**12), st.binary())
def test_a_header_is_read_as_it_was_written(signer: str, seconds: int, signature: bytes) -> None:
    written = Signature(signer, seconds, signature)
    assert parse_signature(written.header()) == written


@table(
    "value",
    [
        b"",
        b"a",
        b"a.b",
        b".1.aa",
        b"a.x.aa",
        b"a.-1.aa",
        b"a.1.a!",
        b"a.1.a",
        b"\xff.1.aa",
        b"a." + b"1" * 19 + b".aa",
    ],
)
def test_another_form_is_none(value: bytes) -> None:
    assert parse_signature(value) is None
