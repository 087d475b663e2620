"""Messages about memories: consumers and handlers of store, update, delete and feedback."""
