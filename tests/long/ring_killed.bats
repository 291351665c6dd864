# ring_killed.bats - a thousand writers of rings, killed at random instructions: every record that was published can be read.

@test "1,000 writers killed at any instruction" {
    HM_RING_KILLS=1000 "$BUILD/tests/test_ring" >"$BATS_TEST_TMPDIR/out"
    grep -q '^1000 writers killed' "$BATS_TEST_TMPDIR/out"
}
