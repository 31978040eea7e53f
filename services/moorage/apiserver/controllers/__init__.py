"""The gateway's own controllers: they create and delete machines of machine sets, and delete evicted bare pods."""
