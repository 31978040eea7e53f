"""The structure of every kind that is served, and what follows from it (docs/kinds.md, "Structure").

`registry.py` has the structure of each kind as a `Schema`. `native.json` and `custom.json` have that of upstream's
kinds; `make upstream-schemas` writes them. `additions.py` and `descriptions.json` say what Moorage adds, and
`models.py` derives the structure of its own kinds from their models.

`strict.py` decodes what is sent as JSON or YAML, `protobuf.py` what is sent as protobuf. `documents.py` makes OpenAPI.
"""
