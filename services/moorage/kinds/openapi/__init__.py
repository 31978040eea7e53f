"""The structure of every kind that is served, and what follows from it.

`registry.py` has the structure of each kind as a `Schema`. Two files of data have that of upstream's kinds:
`native.json` of types that are built into an API server, `custom.json` of custom resources. They contain names, forms,
merge keys and protobuf numbers; `make kubernetes-schema` writes them from upstream's Go types, OpenAPI documents and
manifests. `models.py` derives the structure of Moorage's own kinds from their models.
"""
