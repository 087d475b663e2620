"""Messages about memories: store, update, delete, feedback."""
