"""The query worker: keeps the tables that explanations are made from, and answers over HTTP.

Consumes: HTTP; the topics that `explain` rests on (whole, into memory), and of the others where chains have records.
Keeps: nothing; everything it answers is in the topics.
Emits: nothing.
"""
