"""CEL, the Common Expression Language, as OCM's placements use it (`expressions`)."""
