"""How commands reach Moorage: the gateway over HTTP, the topics over Kafka, and what words and files mean to them.

It knows nothing of how answers look.
"""
