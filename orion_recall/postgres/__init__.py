"""Postgres: pools, migrations, rights, types, held connections."""
