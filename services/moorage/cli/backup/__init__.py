"""Export and restore: the fleet as documents of a YAML file, and back into topics.

`saved_record` is the document of one record, `fleet_file` the file, and `fleet_reader` reads Kafka. `file_check` checks
a file whole, `restore_plan` gives each record its new place, and `fleet_writer` writes them in one transaction.
`declared_objects` makes the objects that `kubectl apply` takes (docs/decisions/0076).
"""
