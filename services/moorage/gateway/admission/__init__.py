"""What becomes of an object before it is written: defaults, versions, feature gates, validation, edits of taints.

It asks the rules of the core and knows neither HTTP nor Kafka.
"""
