"""The shared part of all bridges: the loop that mirrors, reports and acts."""
