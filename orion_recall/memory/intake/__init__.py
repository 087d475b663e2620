"""Messages about memories: consumers and handlers; and background work of a worker."""
