"""The subresources of objects: `status`, `scale`, `finalize`, `binding` and `eviction`."""
