"""How Moorage runs: everything between the pure core and Kafka.

`engine` decides what is read and written, without I/O. `kafka` drives it on a broker. `embedded` is the broker that
comes with Moorage. The modules at the root are shared by all of them; `app` assembles a process.
"""
