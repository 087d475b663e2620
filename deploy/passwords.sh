#!/bin/sh
# Writes every password that compose.yaml asks for into `.env` beside it, each 48 random hexadecimal digits, so that they
# need no quoting in a URL. A file that is there is left alone.
set -eu
umask 077

file=${1:-$(dirname "$0")/.env}
if [ -e "$file" ]; then
    echo "$file is there already: take it away first, or change single lines in it" >&2
    exit 1
fi
for name in POSTGRES_SUPERUSER_PASSWORD POSTGRES_OWNER_PASSWORD POSTGRES_WORKER_PASSWORD POSTGRES_ANALYST_PASSWORD \
    REDIS_WORKER_PASSWORD REDIS_CLIENT_PASSWORD REDIS_OPERATOR_PASSWORD REDIS_ANALYST_PASSWORD QDRANT_API_KEY; do
    printf '%s=%s\n' "$name" "$(od -An -tx1 -N24 /dev/urandom | tr -d ' \n')"
done >"$file.new"
mv "$file.new" "$file"
echo "wrote $file"
