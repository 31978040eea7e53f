"""How it runs: everything between the pure core and Kafka.

`engine` decides what is read and written, without I/O; `kafka` drives it on a broker; `embedded` is the broker that
comes along. The root has what all of them share, and `app`, which puts a process together.
"""
