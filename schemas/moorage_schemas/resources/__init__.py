"""Typed views of the resources that Moorage reads, and the table of their kinds."""
