"""Write probes and deployers for Moorage."""
