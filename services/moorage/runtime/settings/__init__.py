"""The settings of a process, and the configuration that changes decisions."""
