"""`moorage replay`: its output and its exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.component.cli.fake_gateway import invoke, said
from tests.scenario.replay.golden import FOLDER

from moorage.insight.replay.recording import RecordedRecord, Recording
from moorage.runtime.engine.journal import STEPS_HEADER

GOLDEN = FOLDER / "seed-39.jsonl.gz"


def asked(path: Path, *words: str, code: int = 0) -> Any:
    result = invoke("replay", "--from", str(path), *words, "-o", "json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def kept(tmp_path: Path, records: list[RecordedRecord]) -> Path:
    path = tmp_path / "changed.jsonl"
    Recording.of(records).save(path)
    return path


def evicted() -> RecordedRecord:
    """An event of eviction that is not the first of its transaction, or the first if there is no other."""
    found = [record for record in Recording.load(GOLDEN).records() if record.topic == "evictions" and record.value]
    return next((record for record in found if not record.header(STEPS_HEADER)), found[0])


def test_what_is_unchanged_is_equal() -> None:
    found = asked(GOLDEN)
    assert found["differing"] == found["missing"] == 0
    assert found["equal"] == sum(one["transactions"] for one in found["partitions"]) > 40
    assert found["uncompared"] == {}
    assert {one["service"] for one in found["partitions"]} >= {"eviction", "timer", "governor"}


def test_a_folder_is_read_whole(tmp_path: Path) -> None:
    records = list(Recording.load(GOLDEN).records())
    Recording.of(records[::2]).save(tmp_path / "one.jsonl.gz")
    Recording.of(records[1::2]).save(tmp_path / "two.jsonl")
    assert asked(tmp_path) == asked(GOLDEN)


def test_one_service_and_one_partition() -> None:
    found = asked(GOLDEN, "--service", "eviction", "--partition", "0")
    assert [(one["service"], one["partition"]) for one in found["partitions"]] == [("eviction", 0)]


def test_the_table_has_a_line_for_each_partition() -> None:
    code, out, err = said(invoke("replay", "--from", str(GOLDEN)))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == [
        *("SERVICE", "PARTITION", "SESSIONS", "TRANSACTIONS"),
        *("RECORDS", "EQUAL", "DIFFERING", "MISSING", "UNWRITTEN"),
    ]
    assert [line.split()[0] for line in lines[1:-1]] == sorted(line.split()[0] for line in lines[1:-1])
    assert lines[-1].endswith(" 0 differing, 0 not to be compared")


@pytest.mark.parametrize("what", ["value", "key", "header"])
def test_one_byte_that_was_changed_is_found(tmp_path: Path, what: str) -> None:
    records = list(Recording.load(GOLDEN).records())
    changed = evicted()
    other = {
        "value": changed._replace(value=(changed.value or b"").replace(b'"state":"Re', b'"state":"Rx', 1)),
        "key": changed._replace(key=(changed.key or b"")[:-1] + b"9"),
        "header": changed._replace(
            headers=tuple((name, value + b"0" if name == "ce_id" else value) for name, value in changed.headers)
        ),
    }[what]
    if what == "value" and other == changed:
        other = changed._replace(value=(changed.value or b"")[:-2] + b" }")
    path = kept(tmp_path, [other if one is changed or one == changed else one for one in records])
    found = asked(path, "--service", "eviction", code=1)
    assert found["differing"] >= 1
    (first,) = [one["firstDifference"] for one in found["partitions"] if one["firstDifference"]]
    assert (first["topic"], first["offset"]) == ("evictions", changed.offset)
    assert first["recorded"]["key"] == (other.key or b"").decode()
    assert first["made"]["value"] == (changed.value or b"").decode()
    code, out, _ = said(invoke("replay", "--from", str(path), "--service", "eviction"))
    assert code == 1
    assert f"evictions/{changed.partition}@{changed.offset}: the {what}s differ" in out
    assert (other.value or b"").decode() in out


def test_a_record_that_was_written_and_is_gone_is_missing(tmp_path: Path) -> None:
    records = list(Recording.load(GOLDEN).records())
    gone = next(
        one
        for one in records
        if one.topic == "zone-grants" or (one.topic == "eviction-slots" and not one.header(STEPS_HEADER))
    )
    found = asked(kept(tmp_path, [one for one in records if one != gone]), "--service", "governor")
    assert found["differing"] == 0
    assert found["missing"] > 0
    reasons = [reason for one in found["partitions"] for reason in one["missingBecause"]]
    assert any("no longer exists" in reason for reason in reasons)


def test_a_record_that_was_read_and_is_gone_is_missing(tmp_path: Path) -> None:
    records = list(Recording.load(GOLDEN).records())
    gone = next(one for one in records if one.topic == "condition-reports")
    found = asked(kept(tmp_path, [one for one in records if one != gone]))
    by_service = {one["service"]: one for one in found["partitions"] if one["partition"] == gone.partition}
    assert found["differing"] == 0
    reason = f"condition-reports/{gone.partition}@{gone.offset} was read and no longer exists"
    assert by_service["condition-ingest"]["missingBecause"] == [reason]
    assert by_service["condition-ingest"]["equal"] < by_service["condition-ingest"]["transactions"]
    assert by_service["timer"]["missing"] == 0
    code, out, _ = said(invoke("replay", "--from", str(kept(tmp_path, [one for one in records if one != gone]))))
    assert code == 0
    assert f"condition-ingest/{gone.partition}: not compared: {reason}" in out


def test_records_without_steps_cannot_be_decided_on_again(tmp_path: Path) -> None:
    records = [
        one._replace(headers=tuple(header for header in one.headers if header[0] != STEPS_HEADER))
        for one in Recording.load(GOLDEN).records()
    ]
    code, out, err = said(invoke("replay", "--from", str(kept(tmp_path, records))))
    assert code == 2
    assert err == "error: nothing can be decided on again: no record names the input of its decision\n"
    assert "eviction: " in out
    assert "of its records were not compared" in out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "x.jsonl:1: "),
        ("[]", "x.jsonl:1: must be an object with topic, "),
        ('{"topic": "toast"}', "x.jsonl:1: topic: invalid value 'toast': must be one of audit, "),
        ('{"topic": ["taints"]}', "x.jsonl:1: topic: invalid value ['taints']: must be one of audit, "),
        ('{"topic": "taints", "partition": true}', "x.jsonl:1: partition: invalid value True: must be a whole number"),
        (
            '{"topic": "taints", "partition": 0, "offset": 0, "timestamp": 0, "key": {"base64": "!"}}',
            "x.jsonl:1: key: invalid value {'base64': '!'}: must be text, ",
        ),
        ('\n{"topic": "taints", "partition": -1}', "x.jsonl:2: partition: invalid value -1: must be a whole number"),
        (
            '{"topic": "taints", "partition": 0, "offset": 0, "timestamp": 0, "headers": [["a"]]}',
            "x.jsonl:1: headers: must be a list of [name, value]",
        ),
        (
            '{"topic": "taints", "partition": 0, "offset": 0, "timestamp": 0, "value": 7}',
            "x.jsonl:1: value: invalid value 7: must be text",
        ),
        (
            '{"topic": "taints", "partition": 0, "offset": 0, "timestamp": 0, "headers": [["moorage-steps", "{}"]]}',
            "taints/0@0: its steps cannot be read: ",
        ),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    code, _, err = said(invoke("replay", "--from", str(path)))
    assert code == 2
    assert problem in err
    assert err.count("\n") == 1


def test_a_file_that_is_damaged_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    whole = bytearray(GOLDEN.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    code, out, err = said(invoke("replay", "--from", str(path)))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}: ")
    assert err.count("\n") == 1


def test_what_a_recording_does_not_hold_is_said() -> None:
    code, _, err = said(invoke("replay", "--from", str(GOLDEN), "--partition", "77"))
    assert (code, err) == (2, "error: it has no steps of partition 77\n")


def test_there_is_no_such_file(tmp_path: Path) -> None:
    assert said(invoke("replay", "--from", str(tmp_path / "no.jsonl")))[::2] == (
        2,
        f"error: {tmp_path / 'no.jsonl'}: No such file or directory\n",
    )
    assert said(invoke("replay", "--from", str(tmp_path)))[::2] == (
        2,
        f"error: {tmp_path}: has no *.jsonl and no *.jsonl.gz\n",
    )


def test_an_unknown_service_is_a_usage_error() -> None:
    code, _, err = said(invoke("replay", "--from", str(GOLDEN), "--service", "evictor"))
    assert code == 2
    assert err.startswith("error: --service: invalid value 'evictor': must be one of condition-ingest, ")


def test_what_was_read_is_written_again(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl.gz"
    code, out, _ = said(invoke("replay", "--from", str(GOLDEN), "--record", str(copy)))
    assert code == 0
    assert out.endswith(f"records written to {copy}\n")
    assert gzip.decompress(copy.read_bytes()) == gzip.decompress(GOLDEN.read_bytes())


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    record = RecordedRecord("condition-reports", 0, 0, 5, b"\xff", b"\x00\xfe", (("a", b"\xff"), ("b", b"")))
    path = kept(tmp_path, [record])
    assert list(Recording.load(path).records()) == [record]
