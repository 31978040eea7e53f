"""What requests say and answers look like: media types, bodies, options, selectors, objects, tables and lists."""
