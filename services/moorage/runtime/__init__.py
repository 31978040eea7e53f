"""The runtime: everything between the pure core and Kafka.

`service` defines a service, and `app` assembles a process. `engine` orders reads and writes, without I/O; `kafka`
drives it on a broker; `embedded` is the bundled broker. `wire` has the formats of records, `settings` the settings, and
`process` the parts that every process needs. `reports` checks reports, and `identities` has the keys and users of a
process.
"""
