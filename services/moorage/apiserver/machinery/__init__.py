"""The machinery of the API, without the meaning of any kind: structure, patches, encodings, errors."""
