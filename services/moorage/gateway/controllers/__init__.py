"""What the gateway does by itself: it keeps machine sets at their number, and deletes bare pods that were evicted."""
