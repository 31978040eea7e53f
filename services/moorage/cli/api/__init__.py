"""Access to Moorage: the gateway over HTTP, the topics over Kafka, and the parsing of words and files.

Nothing here depends on how results are shown.
"""
