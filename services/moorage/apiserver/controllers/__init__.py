"""What the gateway does on its own: it creates and deletes machines of machine sets, and deletes evicted bare pods."""
