-- The passwords of the roles, from the environment of psql (15 or newer). Without one, or with an empty one, a role cannot
-- log in. What fails here is not written to the server's log, because it would be written with the password.
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;

\getenv owner_password POSTGRES_OWNER_PASSWORD
\getenv worker_password POSTGRES_WORKER_PASSWORD
\getenv analyst_password POSTGRES_ANALYST_PASSWORD

ALTER ROLE orion_owner PASSWORD :'owner_password';
ALTER ROLE orion_worker PASSWORD :'worker_password';
ALTER ROLE orion_analyst PASSWORD :'analyst_password';
