"""Why a workload is where it is: the present state put to the rules that decide, and the chain of events behind it."""
