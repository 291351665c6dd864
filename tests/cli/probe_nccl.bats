# probe_nccl.bats - NCCL's profiler plugin, driven by a host in C as NCCL drives it, in all four versions of the interface.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST_OFF HINDMOST_RECORDS
    export HINDMOST_DIR=$PWD/rings RANK=0 WORLD_SIZE=2
    plugin=$BUILD/libnccl-profiler-hindmost.so
}

@test "versions 4 to 7: every operation once, sizes and numbers, whatever comes late or stands in unused fields" {
    local v
    for v in 4 5 6 7; do
        HINDMOST_JOB=v$v "$BUILD/tests/nccl_host" "$plugin" $v >out
        [ "$(cat out)" = 'hindmost mask 6' ]
        "$HINDMOST" ring rings/v$v >print
        [ "$(grep -c 'collective all_reduce .* bytes=2000 async enqueued$' print)" = 800 ]
        [ "$(grep -c 'send       send .* peer=1 .* bytes=77 async enqueued$' print)" = 400 ]
        [ "$(grep -c 'recv       recv .* peer=1 .* bytes=77 async enqueued$' print)" = 400 ]
        grep -q ' 1601 records begun, .* 1601 read, 0 overwritten before that, 0 unfinished, 0 refused' print
        [ "$(grep 'all_reduce' print | grep -o 'group=world .*seq=[0-9]*' | sort -u | wc -l)" = 400 ]
        grep -q 'group=nccl-abcd' print
    done
}

@test "switched off, or without room: NCCL is told nothing is wanted" {
    HINDMOST_OFF=1 "$BUILD/tests/nccl_host" "$plugin" 6 >out 2>err
    [ "$(cat out)" = 'hindmost mask 0' ]
    HINDMOST_DIR=/proc/none "$BUILD/tests/nccl_host" "$plugin" 5 >out 2>err
    [ "$(cat out)" = 'hindmost mask 0' ]
    grep -q 'NCCL is not recorded' err
}

@test "no data race: the same under ThreadSanitizer" {
    cc -std=c11 -g -O1 -fsanitize=thread -D_GNU_SOURCE -fPIC -shared -I"$SOURCE/include" -I"$SOURCE/probe" -Wl,-z,nodelete -o plugin.so \
        "$SOURCE"/probe/{nccl,probe,open,names}.c -lpthread 2>/dev/null || skip "no ThreadSanitizer here"
    cc -std=gnu17 -g -O1 -fsanitize=thread -o host "$SOURCE/tests/tools/nccl_host.c" -ldl -lpthread
    HINDMOST_JOB=tsan TSAN_OPTIONS=exitcode=66 ./host ./plugin.so 7 >out
    [ "$(cat out)" = 'hindmost mask 6' ]
}
