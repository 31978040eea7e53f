// Empty: with it, functions may be declared without a body, and linked to those of upstream's packages.
