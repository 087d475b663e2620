"""Several workers as processes of one command: where each has its data, how they are started and kept alive."""
