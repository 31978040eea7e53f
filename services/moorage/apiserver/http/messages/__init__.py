"""The contents of requests and answers: media types, bodies, options, selectors, objects, tables and lists."""
