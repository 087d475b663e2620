"""The path of one memory: composed from a message, kept in the record, offered to every copy of the index."""
