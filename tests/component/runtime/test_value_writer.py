"""What is written is what pydantic would write, byte for byte, for every model of the contract."""

from __future__ import annotations

from datetime import UTC, datetime
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from pydantic import AwareDatetime, Field, computed_field, field_serializer

from moorage.runtime.service import Emit
from moorage.runtime.wire.value_writer import encode_row, row_type, write_value
from moorage_schemas import topics
from moorage_schemas.base import Model, OpenModel, Timestamp
from moorage_schemas.envelope import Meta
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.timer import TimerFired
from moorage_schemas.topics import TIMER_FIRED, Topic

TOPICS = [found for found in vars(topics).values() if isinstance(found, Topic)]
TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)


def values(annotation: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one branch for each kind of type
    """Values of a type, valid or not: how they are written does not depend on constraints."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values(args[0])
    if origin in (Union, UnionType):
        return st.one_of([values(one) for one in args])
    if origin is tuple:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is list:
        return st.lists(values(args[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=2)
    if annotation is AwareDatetime:
        return st.datetimes(timezones=st.just(UTC))
    if annotation is Any:
        return JSON
    if annotation is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return models(annotation)
    return st.from_type(annotation)


def models(model: type[Model]) -> st.SearchStrategy[Model]:
    """Models with any values in their fields."""
    fields = {name: values(field.annotation) for name, field in model.model_fields.items()}
    return st.fixed_dictionaries(fields).map(lambda found: model.model_construct(**found))


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.short)
@settings(max_examples=40)
@given(data=st.data())
def test_every_model_is_written_as_pydantic_writes_it(topic: Topic, data: st.DataObject) -> None:
    event = data.draw(models(topic.event))
    assert write_value(event) == event.model_dump_json().encode()


@given(event=models(TimerFired))
def test_an_event_that_was_never_made_is_written_as_if_it_had_been(event: Model) -> None:
    fields = {name: getattr(event, name) for name in TimerFired.model_fields}
    target = Raw(write_value(fields.pop("target")))
    assert encode_row(row_type(TimerFired)(**fields, target=target)) == write_value(event)


def test_a_model_that_only_pydantic_can_write_has_no_row_type() -> None:
    with pytest.raises(TypeError, match="OpenModel"):
        row_type(OpenModel)


def test_what_a_service_emits_as_a_value_is_read_as_the_event() -> None:
    event = fired()
    cause = Meta("id", "source", "type")
    assert Emit(TIMER_FIRED, "a", "Node/n1", write_value(event), cause).event == event
    assert Emit(TIMER_FIRED, "a", "Node/n1", event, cause).event is event
    assert Emit(TIMER_FIRED, "a", "Node/n1", None, cause).event is None


def test_a_fast_way_exists_for_what_is_written_most() -> None:
    from moorage.runtime.wire.value_writer import _row_type  # noqa: PLC0415 - only this test looks at how it is done

    often = ("conditions", "timers", "timer-fired", "evictions", "bindings", "placements", "taints", "zone-members")
    assert [topic.short for topic in TOPICS if topic.short in often and _row_type(topic.event) is None] == []


def fired(**changed: Any) -> TimerFired:
    target = TargetRef(kind=TargetKind.NODE, name="n1")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    given_fields = {"id": "a", "target": target, "owner": "o", "generation": 1, "deadline": now, "fired_time": now}
    return TimerFired.model_construct(**{**given_fields, "subject": "", **changed})


@pytest.mark.parametrize("changed", [{"generation": 2**70}, {"generation": 1.5}, {"subject": None}])
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_unusual_values_are_left_to_pydantic(changed: dict[str, Any]) -> None:
    event = fired(**changed)
    assert write_value(event) == event.model_dump_json().encode()


def test_text_that_is_no_unicode_is_refused_as_pydantic_refuses_it() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        write_value(fired(subject="\ud800"))


class Derived(Model):
    """It has a field that is computed."""

    name: str

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents it in this order
    @property
    def shout(self) -> str:
        """The name, aloud."""
        return self.name.upper()


class Serialized(Model):
    """It writes a field in its own way."""

    name: str

    @field_serializer("name")
    def backwards(self, name: str) -> str:
        """Return the name from its end."""
        return name[::-1]


class Sparse(Model):
    """It leaves out a field, for a reason of its own."""

    number: int = Field(default=3, exclude_if=lambda number: number > 2)
    secret: str = Field(default="x", exclude=True)


class Open(OpenModel):
    """It keeps what it does not know."""

    when: Timestamp


@pytest.mark.parametrize(
    "event",
    [
        Derived(name="a"),
        Serialized(name="ab"),
        Sparse(number=1),
        Sparse(number=3),
        Open.model_validate({"when": "2026-01-01T00:00:00Z", "more": 1}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_models_with_rules_of_their_own_are_left_to_pydantic(event: Model) -> None:
    assert write_value(event) == event.model_dump_json().encode()
