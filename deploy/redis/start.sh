#!/bin/sh
# Starts Valkey (or Redis from 7.0 on: the users need selectors) with the users of users.acl.
#
# That file holds no password, so by itself it lets nobody in but the health check. Here every user gets the one from
# the environment, as a hash, and every key and channel the prefix that the workers have (ORION_PREFIX). What comes out
# is in memory only, and readable by the server's own user alone.
set -eu
umask 077

template=${USERS_ACL:-/etc/valkey/users.acl}
users=${RUN_DIR:-/run/valkey}/users.acl
prefix=${ORION_PREFIX:-}

case $prefix in
*[!A-Za-z0-9._:{}-]*)
    echo "ORION_PREFIX: letters, digits and . _ : { } - are allowed here, not '$prefix'" >&2
    exit 2
    ;;
esac

rules="s/\\([~&]\\)\\([a-z]\\)/\\1$prefix\\2/g"
for user in worker client operator analyst; do
    name=REDIS_$(echo "$user" | tr a-z A-Z)_PASSWORD
    eval "password=\${$name:-}"
    if [ "${#password}" -lt 16 ]; then
        echo "$name: at least 16 characters are needed" >&2
        exit 2
    fi
    # printf is built into the shell: the password is in no list of processes.
    hash=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
    rules="$rules; s/^user $user on/& #$hash/"
    unset "$name"
done
sed -e "$rules" "$template" >"$users"

# Written through once a second; never made to forget entries for want of memory: it says so instead.
exec "${VALKEY_SERVER:-valkey-server}" --aclfile "$users" --appendonly yes --appendfsync everysec --save '' \
    --maxmemory-policy noeviction "$@"
