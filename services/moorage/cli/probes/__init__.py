"""Probes without code: commands, configurations of node-problem-detector, HTTP and TCP. They rest on the SDK."""
