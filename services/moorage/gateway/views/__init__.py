"""What the API shows: declared objects merged with what the services decided, and read-only objects made of that.

It reads the tables and writes nothing.
"""
