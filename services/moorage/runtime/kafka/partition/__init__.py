"""The worker of a service, and the task and standbys of each of its partitions."""
