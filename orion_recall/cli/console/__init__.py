"""The command `console`, and the console inside `up`."""
