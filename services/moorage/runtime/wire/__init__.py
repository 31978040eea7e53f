"""The formats of records: how events are read and written.

A row is a struct with the fields of a model, for topics of which so many records are read or written that their models
would take most of the time. `row_reader` reads rows, `value_writer` writes them, and their types are generated from the
models.
"""
