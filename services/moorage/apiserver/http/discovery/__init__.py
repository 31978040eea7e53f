"""Discovery: the served groups, OpenAPI, definitions of kinds, and access reviews."""
