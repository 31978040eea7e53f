"""The write path: checks, durable records, and writes on behalf of bridges and evictions."""
