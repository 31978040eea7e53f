"""The printed forms of kinds: the columns of their tables, and the sections of `describe`.

A kind defines what is printed. The program that prints it, such as the command line, defines how: widths, colours,
YAML. This package uses only small modules of the core, because the command line loads it with every kind.
"""
