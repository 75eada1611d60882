#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# make demo: the whole life of a backup on this machine, in a scratch folder, in about a minute. A PostgreSQL server
# under load is backed up, a table is dropped by mistake, and the cluster comes back as it was just before.
# Nothing outside the scratch folder changes (as root: a system user "pghush" is created, for servers refuse root).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

SCALE=${DEMO_SCALE:-60}
BIN=$(readlink -f build/pghush)
PGBIN=$(ls -d /usr/lib/postgresql/*/bin | sort -V | while read -r dir; do [[ -x $dir/initdb ]] && echo "$dir"; done | tail -n 1)
[[ -x /usr/lib/postgresql/15/bin/initdb ]] && PGBIN=/usr/lib/postgresql/15/bin
SCRATCH=$(mktemp -d "${DEMO_SCRATCH:-/var/tmp}/pghush-demo-XXXXXX")
LOAD_PID=

if [[ $(id -u) == 0 ]]; then
    id pghush >/dev/null 2>&1 ||
        useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /bin/sh pghush
    chown pghush:pghush "$SCRATCH"
    AS=(setpriv --reuid pghush --regid pghush --clear-groups env HOME="$SCRATCH")
else
    AS=()
fi
if ! "${AS[@]}" test -x "$BIN"; then # a checkout below a private home
    install -m 755 "$BIN" "$SCRATCH/pghush"
    BIN=$SCRATCH/pghush
fi
export PGUSER=postgres PGHOST=$SCRATCH PGPORT=5432 LC_ALL=C.UTF-8

as() { (cd "$SCRATCH" && "${AS[@]}" "$@"); }
say() { if [[ -t 1 ]]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }
show() { printf '  $ %s\n' "$*"; }
sql() { as "$PGBIN/psql" -XAtq -v ON_ERROR_STOP=1 -d postgres -c "$1"; }
pghush() { as "$BIN" --config "$SCRATCH/pghush.conf" --cluster demo "$@"; }

load_start() {
    "${AS[@]}" "$PGBIN/pgbench" -n -c 4 -T 600 postgres >/dev/null 2>&1 &
    LOAD_PID=$!
}
load_stop() {
    [[ -n $LOAD_PID ]] && kill "$LOAD_PID" 2>/dev/null && wait "$LOAD_PID" 2>/dev/null || true
    LOAD_PID=
}

cleanup() {
    local rc=$?
    load_stop
    local data
    for data in "$SCRATCH/data" "$SCRATCH/again"; do
        [[ -f $data/postmaster.pid ]] && as "$PGBIN/pg_ctl" -D "$data" -m immediate -s stop >/dev/null 2>&1
    done
    [[ $rc != 0 ]] && tail -n 15 "$SCRATCH"/*.log >&2 2>/dev/null
    rm -rf "$SCRATCH"
    [[ $rc == 0 ]] || echo "the demo failed (exit $rc)" >&2
}
trap cleanup EXIT

fingerprint() {
    as "$PGBIN/psql" -p "$PGPORT" -XAtq -v ON_ERROR_STOP=1 -d postgres <<'SQL'
select 'accounts', count(*), sum(hashtext(t::text)::bigint) from pgbench_accounts t
union all select 'branches', count(*), sum(hashtext(t::text)::bigint) from pgbench_branches t
union all select 'tellers', count(*), sum(hashtext(t::text)::bigint) from pgbench_tellers t
union all select 'history', count(*), sum(hashtext(t::text)::bigint) from pgbench_history t;
SQL
}

# Bytes of the data directory that are in the page cache.
resident() {
    command -v fincore >/dev/null || { echo 0; return; }
    find "$SCRATCH/data/base" -type f -size +0 -print0 | xargs -0 fincore -b -n -o RES 2>/dev/null | awk '{s += $1} END {print s + 0}'
}

forget_cache() {
    sync
    find "$SCRATCH/data/base" -type f -size +0 -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
}

# One backup: its JSON in backup.out, its cost in backup.time.
timed_backup() {
    show "pghush backup --checkpoint fast"
    TIMEFORMAT='%R %U %S'
    { time pghush --output json backup --checkpoint fast --progress off >"$SCRATCH/backup.out"; } 2>"$SCRATCH/backup.time"
}

report_backup() {
    python3 - "$SCRATCH" <<'PYTHON'
import json, sys
scratch = sys.argv[1]
wall, user, system = map(float, open(scratch + "/backup.time").read().split()[-3:])
out = json.load(open(scratch + "/backup.out"))
read = sum(out["io"]["read_%s_bytes" % how] for how in ("direct", "cached", "dontcache", "buffered"))
kind = "incremental, against %s" % out["prior"] if out["type"] == "incr" else "full"
print("    backup %s (%s): %d files, %.0f MB of database, %.0f MB read, %.0f MB stored" % (
    out["label"], kind, out["files"], out["database_bytes"] / 1e6, read / 1e6, out["stored_bytes"] / 1e6))
print("    wall %.1f s, CPU %.1f s user and %.1f s system" % (wall, user, system))
PYTHON
}

say "1. A PostgreSQL server with $((SCALE * 15)) MB of data, archiving its WAL"
as "$PGBIN/initdb" -D "$SCRATCH/data" -U postgres -A trust -k -N --locale=C -E UTF8 >"$SCRATCH/initdb.log"
as mkdir -m 700 "$SCRATCH/repo"
as tee "$SCRATCH/pghush.conf" >/dev/null <<CONF
[global]
repo = $SCRATCH/repo
compress = lz4

[demo]
pgdata = $SCRATCH/data
conninfo = host=$SCRATCH port=5432 user=postgres
CONF
sed 's/^/    /' "$SCRATCH/pghush.conf"
as tee -a "$SCRATCH/data/postgresql.conf" >/dev/null <<CONF
listen_addresses = ''
unix_socket_directories = '$SCRATCH'
archive_mode = on
archive_command = '$BIN --config $SCRATCH/pghush.conf --cluster demo archive-push "%p"'
shared_buffers = 64MB
CONF
as "$PGBIN/pg_ctl" -D "$SCRATCH/data" -l "$SCRATCH/server.log" -s -w start
show "pghush init"
pghush init
as "$PGBIN/pgbench" -i -q -s "$SCALE" postgres >/dev/null 2>&1
sql checkpoint
show "pghush check"
pghush check

say "2. A full backup while pgbench runs"
forget_cache
load_start
sleep 2
before=$(resident)
timed_backup
after=$(resident)
report_backup
python3 - "$before" "$after" <<'PYTHON'
import sys
before, after = map(int, sys.argv[1:])
print("    page cache that holds the database: %.0f MB before, %.0f MB after (pgbench runs and adds to it)" % (
    before / 1e6, after / 1e6))
PYTHON

say "3. Pgbench goes on; a later backup costs what changed"
sleep 3
timed_backup
report_backup

say "4. Life goes on; then somebody drops a table"
sleep 3
load_stop
fingerprint >"$SCRATCH/before.txt"
sleep 0.2
moment=$(sql "select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
sleep 0.2
load_start
sleep 3
load_stop
sql "drop table pgbench_accounts; select pg_switch_wal()" >/dev/null
echo "    at $moment all was well:"
sed 's/^/      /' "$SCRATCH/before.txt"
echo "    then: drop table pgbench_accounts"
last=$(sql "select pg_walfile_name(pg_switch_wal())")
for _ in $(seq 100); do
    [[ $(sql "select coalesce(last_archived_wal >= '$last', false) from pg_stat_archiver") == t ]] && break
    sleep 0.2
done
pghush info

say "5. Back to $moment, into a new folder"
show "pghush restore --target-time $moment --target-action promote $SCRATCH/again"
{ time pghush restore --progress off --target-time "$moment" --target-action promote "$SCRATCH/again"; } 2>"$SCRATCH/restore.time" ||
    { cat "$SCRATCH/restore.time" >&2; exit 1; }
read -r wall user system < <(tail -n 1 "$SCRATCH/restore.time")
echo "    wall $wall s, CPU $user s user and $system s system"
as "$PGBIN/pg_ctl" -D "$SCRATCH/again" -l "$SCRATCH/again.log" -s -w -t 120 -o "-p 5433 -c archive_mode=off" start
export PGPORT=5433
for _ in $(seq 300); do
    [[ $(sql 'select pg_is_in_recovery()') == f ]] && break
    sleep 0.2
done
fingerprint >"$SCRATCH/after.txt"
sed 's/^/      /' "$SCRATCH/after.txt"
cmp "$SCRATCH/before.txt" "$SCRATCH/after.txt"
say "Every row is back: the restored cluster equals the one of $moment."
show "pghush verify"
pghush verify --progress off
