"""The query worker: keeps the tables that explanations rest on, and answers over HTTP.

Consumes: HTTP; the topics that `explain` rests on (whole, into memory); offsets of chains' records in other topics.
Keeps: nothing. Everything it answers is in the topics.
Emits: nothing.
"""
