"""Steps before an object is written: defaults, versions, feature gates, validation, taint edits.

It applies the rules of the core and does not depend on HTTP or Kafka.
"""
