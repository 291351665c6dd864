# node_disk_full.bats - a ledger on a file system of 1 MB that fills up: one line, nothing half-done, and it goes on when there is room.

load ../helper

setup() {
    [ "$(id -u)" = 0 ] || skip "mounting a tmpfs needs root"
    mkdir "$BATS_TEST_TMPDIR/small"
    mount -t tmpfs -o size=1m hm-small "$BATS_TEST_TMPDIR/small" || skip "a tmpfs cannot be mounted here"
    export HINDMOST_LEDGER=$BATS_TEST_TMPDIR/small/nodes.db
    "$HINDMOST" node add a
}

teardown() { mountpoint -q "$BATS_TEST_TMPDIR/small" && umount "$BATS_TEST_TMPDIR/small"; }

@test "a full disk: evidence is refused whole, the old ledger stays readable, and works again with room" {
    dd if=/dev/zero of="$BATS_TEST_TMPDIR/small/filler" bs=4096 2>/dev/null || true
    for _ in $(seq 3000); do echo '{"node":"a","kind":"xid-31","source":"kernel","detail":"a page fault of a program, again and again"}'; done >"$BATS_TEST_TMPDIR/many"
    must_fail nodes.db node mark --evidence "$BATS_TEST_TMPDIR/many"
    rm "$BATS_TEST_TMPDIR/small/filler"
    "$HINDMOST" node history a --json - | jq -e '.evidence == [] and (.steps | length == 1)'
    head -1 "$BATS_TEST_TMPDIR/many" | "$HINDMOST" node mark --evidence -
    "$HINDMOST" node history a --json - | jq -e '.evidence | length == 1'
}
