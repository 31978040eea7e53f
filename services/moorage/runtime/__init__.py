"""The runtime: everything between the pure core and Kafka.

`service` is what a service is, and `app` assembles a process. `engine` decides what is read and written, without I/O,
and `kafka` drives it on a broker; `embedded` is the broker that comes with Moorage. `wire` has the formats of records,
`settings` the settings, `process` what every process needs, `reports` the checks of reports, and `identities` the keys
and users of a process.
"""
