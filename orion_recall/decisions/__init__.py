"""The decision log: from the bus into Postgres, and questions to it in SQL."""
