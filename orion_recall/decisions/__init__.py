"""The decision log: written to Postgres from the bus, and read with SQL."""
