"""The commands: one a file, loaded when it is called."""
