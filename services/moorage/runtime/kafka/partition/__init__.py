"""The worker of a service, and the owner and standbys of each of its partitions."""
