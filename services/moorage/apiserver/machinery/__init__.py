"""The machinery of the API, which knows no kind's meaning: structure, patches, encodings, errors."""
