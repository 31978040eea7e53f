"""One module for each command. It is imported when the command is called."""
