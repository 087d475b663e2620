"""What commands connect to: bus and Postgres, the record, the copies of index and graph."""
