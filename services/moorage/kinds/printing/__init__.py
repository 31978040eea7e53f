"""What kinds print: the columns of their tables, and the sections of `describe`.

A kind says what is printed. Whoever prints it, such as the command line, says how: widths, colours, YAML. This package
rests on the core's plainest modules, because the command line loads it with every kind.
"""
