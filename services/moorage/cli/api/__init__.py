"""How commands reach Moorage: the gateway over HTTP, the topics over Kafka, and how words and files are read.

Nothing here depends on how results are shown.
"""
