"""What the gateway serves, and what the caller may do: groups, OpenAPI, definitions of kinds, and access reviews."""
