"""The embedded servers (Valkey, Postgres) as supervised child processes, and the lock on a folder."""
