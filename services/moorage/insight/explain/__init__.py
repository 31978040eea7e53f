"""Explains where a workload is: applies the rules to the present state, and follows the events behind the decision."""
