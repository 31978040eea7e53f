"""The formats of records: how events are read and written.

A row is a struct with the fields of a model. It is used for topics with so many records that models would take most of
the time. `row_reader` reads rows, `value_writer` writes them, and their types are generated from the models.
"""
