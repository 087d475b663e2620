"""Background work of a worker: slower extraction, access counts, retention of request receipts."""
