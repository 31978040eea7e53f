"""JSON Schemas of models with the docstrings under their fields as descriptions."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from moorage_schemas.field_docs import field_docs


class DescribedJsonSchema(GenerateJsonSchema):
    """Pydantic's generator, with the fields' docstrings as descriptions, and without titles made from names."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - the base class's signature
        """Return False, because a title made from a field's name adds nothing to it."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model. The docstring below each field is its description."""
        made = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        docs = field_docs(model)
        for name, field in model.model_fields.items():
            described = made.get("properties", {}).get(field.alias or name)
            if described is not None and name in docs:
                described.setdefault("description", docs[name])
        return made
