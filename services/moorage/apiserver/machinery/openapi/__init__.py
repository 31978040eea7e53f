"""The structure of every kind that is served, and what follows from it (docs/kinds.md, "Structure").

`registry.py` has the structure of each kind as a `Schema`. `native.json` and `custom.json` have that of upstream's
kinds; `make upstream-schemas` writes them. `data.py` and `descriptions.json` have Moorage's additions. The structure of
Moorage's own kinds is derived from their models.

`strict.py` decodes what is sent as JSON or YAML, `protobuf.py` what is sent as protobuf. `documents.py` makes OpenAPI.
"""
