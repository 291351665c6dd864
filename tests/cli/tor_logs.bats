# tor_logs.bats - logs as they are found: intervals, repetitions, clocks, chains, prefixes. The right answers are counted by hand.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    unset TZ
}

# iterations FIRST LAST EVERY SECONDS START: lines of Megatron-LM, one each EVERY iterations of SECONDS, the first ending EVERY x SECONDS after
# START (a date). PREFIX stands before each.
iterations() {
    local n at=$(date -u -d "$5" +%s)
    for ((n = $1; n <= $2; n += $3)); do
        at=$((at + $3 * $4))
        printf '%s [%s] iteration %8d/   10000 | consumed samples: %d | elapsed time per iteration (ms): %d.0 | lm loss: 1.0E+01 |\n' \
            "$PREFIX" "$(date -u -d "@$at" '+%F %T')" "$n" $((16 * n)) $((1000 * $4))
    done
}

# measure FILE...: out.json. same JQ-EXPRESSION: it is true of it.
measure() { "$HINDMOST" tor measure "$@" --json out.json >text; }
same() {
    jq -e ". as \$r | ([.ledger[] | {(.class): .seconds}] | add) as \$l | $1" out.json >/dev/null || {
        echo "not true: $1"
        jq -c '[.tor, .t_obs_s, .attempts, .failures, .saves, .steps_run, .steps_kept], [.ledger[] | select(.seconds > 0)], .notes' out.json
        return 1
    }
    jq -e '([.ledger[].seconds] | add) - .t_obs_s | fabs < 1e-6' out.json >/dev/null
}

@test "a log interval over 1: the first line of an attempt is not one step" {
    { iterations 100 600 100 1 '2026-03-02 10:00:00'; iterations 500 1000 100 1 '2026-03-02 10:11:40'; } >log
    measure log
    same '.steps_kept == 1000 and .steps_run == 1200 and $l["work-rolled-back"] == 200 and $l["healthy-progress"] == 1000'
    same '.attempts == 2 and .failures == 1'
    # a checkpoint between two lines, and the line that says which was loaded
    { iterations 100 600 100 1 '2026-03-02 10:00:00'
      echo ' loading checkpoint from /ckpt at iteration 550'
      iterations 600 600 100 1 '2026-03-02 10:11:00'
      iterations 700 700 100 1 '2026-03-02 10:12:40'; } >log
    measure log
    same '.steps_kept == 700 and .steps_run == 750 and $l["work-rolled-back"] == 50'
    # one line tells nothing of the interval; Megatron-LM's arguments do
    iterations 100 100 100 1 '2026-03-02 10:00:00' >one
    { echo '  log_interval ....................................... 100'; cat one; } >log
    measure log
    same '.steps_kept == 100 and .t_obs_s == 100'
}

@test "saves between two lines of an interval take their own time" {
    { iterations 100 200 100 1 '2026-03-02 10:00:00'
      echo 'saving checkpoint at iteration     250 to /ckpt in torch_dist format'
      echo '    save-checkpoint ................................: (29000.00, 30000.00)'
      iterations 300 300 100 1 '2026-03-02 10:03:50'; } >log
    measure log
    same '.t_obs_s == 330 and $l["healthy-progress"] == 300 and $l["checkpoint-saving"] == 30 and .saves == 1'
}

@test "the same lines by two ranks, by two hosts, or in a file given twice are no rollback" {
    PREFIX='[default7]:' iterations 1 50 1 2 '2026-03-02 10:00:00' >a
    sed 's/default7/default6/; s/\(:[0-9][0-9]\)\]/\1.300000]/' a >b # another rank, 0.3 s later
    sed 's/default7/default5/' a >c
    for logs in 'a a' 'a b' 'a b c' 'ab'; do
        paste -d '\n' a b >ab
        measure $logs
        same '.steps_run == 50 and .steps_kept == 50 and .failures == 0 and .attempts == 1 and $l["healthy-progress"] >= 100 and $l["work-rolled-back"] == 0'
    done
    grep -q 'stand more than once' text
    # an event log given twice
    printf '%s\n' '{"time": 0, "event": "start"}' '{"time": 20, "event": "step", "step": 1, "duration_s": 10}' \
        '{"time": 25, "event": "save", "step": 1, "duration_s": 5}' '{"time": 30, "event": "failure"}' >e
    measure e e
    same '.steps_run == 1 and .saves == 1 and .failures == 1 and .attempts == 1 and .t_obs_s == 30'
    # accounting given twice
    printf '%s\n' 'JobID|State|Submit|Start|End' '7|NODE_FAIL|2026-03-02T09:00:00|2026-03-02T09:10:00|2026-03-02T10:10:00' >s
    measure s s
    same '.failures == 1 and .attempts == 1 and $l["waiting-for-nodes"] == 600'
}

@test "the first rank's and the last rank's files are one run" {
    { iterations 1 5 1 10 '2026-03-02 10:00:00'
      echo '(min, max) time across ranks (ms):'
      echo '    save-checkpoint ................................: (29000.00, 30000.00)'
      iterations 6 10 1 10 '2026-03-02 10:01:20'; } >last
    echo 'saving checkpoint at iteration       5 to /ckpt in torch_dist format' >first
    for logs in last 'first last' 'last first' 'first last first last'; do
        measure $logs
        same '.saves == 1 and $l["checkpoint-saving"] == 30 and $l["healthy-progress"] == 100 and .t_obs_s == 130'
    done
    # seconds, and a line a rank
    sed 's/(ms):$/(s):/; s/(29000.00, 30000.00)/(29.00, 30.00)/' last >seconds
    measure seconds
    same '$l["checkpoint-saving"] == 30'
    sed 's/save-checkpoint.*/save-checkpoint:\n      rank  0: 29000.00\n      rank  1: 30000.00/; s/(min, max) time/times/' last |
        sed 's/save-checkpoint:/save-checkpoint ...:/' >ranks
    measure ranks
    same '.saves == 1 and $l["checkpoint-saving"] == 30'
}

@test "prefixes and colours stand anywhere" {
    iterations 1 3 1 10 '2026-03-02 10:00:00' >plain
    sed 's/^ \[\(.*\)\] iteration/[\1] [default7]: iteration/' plain >behind
    sed 's/^/7: /' plain >srun
    sed 's/^/[1,7]<stdout>:/; s/iteration/\x1b[1miter\x1b[0mation/; s/$/\x1b[K\r/' plain >coloured
    sed 's/^/2026-03-02T11:11:11.123456789Z stdout F /' plain >kubernetes
    sed 's/(ms): 10000.0/(s): 10.00/' plain >seconds
    sed 's/(ms): /(ms)=/' plain >equals
    sed '1s/^/\xef\xbb\xbf/' plain >mark
    { printf '# a comment\n\nusing world size: 8\n{"not": "an event"}\n'; cat plain; } >lead
    for log in plain behind srun coloured kubernetes seconds equals mark lead; do
        measure "$log"
        same '.steps_kept == 3 and $l["healthy-progress"] == 30 and .t_obs_s == 30' || {
            echo "$log"
            return 1
        }
    done
    printf '\xef\xbb\xbf# exported\n{"time": 0, "event": "start"}\n# again\n{"time": 10, "event": "step", "step": 1, "duration_s": 10}\n' >events
    measure events
    same '.steps_kept == 1 and .notes == []'
    printf '\xef\xbb\xbf# exported\r\nJobID|State|Submit|Start|End\r\n7|COMPLETED|2026-03-02T09:00:00|2026-03-02T09:10:00|2026-03-02T10:10:00\r\n' >sacct
    measure sacct
    same '$l["waiting-for-nodes"] == 600'
}

@test "a clock set back in autumn, set on in spring, and a zone that knows when" {
    [ -e /usr/share/zoneinfo/Europe/Berlin ] || skip "no zone files (tzdata) on this machine"
    # 400 steps of 10 s over 25 October 2026 03:00 CEST = 02:00 CET, in local time
    iterations 1 400 1 10 '2026-10-25 00:00:00' | while read -r line; do
        utc=$(sed 's/.*\[\([^]]*\)\].*/\1/' <<<"$line")
        echo "[$(TZ=Europe/Berlin date -d "$utc UTC" '+%F %T')]${line#*]}"
    done >autumn
    sed 's/2026-10-25 0/2026-10-25 0/' autumn | grep -q '02:59:50' # it happens
    for zone in '' '--zone Europe/Berlin'; do
        measure autumn $zone
        same '.steps_kept == 400 and .steps_run == 400 and .t_obs_s == 4000 and $l["healthy-progress"] == 4000 and .failures == 0'
    done
    measure autumn --zone autumn=Europe/Berlin
    same '.notes == []'
    iterations 1 400 1 10 '2026-03-29 00:30:00' | while read -r line; do
        utc=$(sed 's/.*\[\([^]]*\)\].*/\1/' <<<"$line")
        echo "[$(TZ=Europe/Berlin date -d "$utc UTC" '+%F %T')]${line#*]}"
    done >spring
    for zone in '' '--zone Europe/Berlin'; do
        measure spring $zone
        same '.steps_kept == 400 and .t_obs_s == 4000 and $l["healthy-progress"] == 4000'
    done
    # an hour that is missing on a Tuesday is an hour
    { iterations 1 10 1 10 '2026-03-03 01:58:20'; iterations 11 20 1 10 '2026-03-03 03:00:00'; } >pause
    measure pause
    same '.t_obs_s == 3800 and $l.unknown == 3600'
}

@test "zones: offsets with and without a colon, names that are refused, sources that disagree" {
    printf '%s\n' '{"time":"2026-08-22T10:00:00+0200","event":"start"}' '{"time":"2026-08-22T08:00:20Z","event":"step","step":1,"duration_s":10}' \
        '{"time":"2026-08-22T08:00:30+00","event":"end"}' >offsets
    measure offsets
    same '.t_obs_s == 30 and .tor > 0.333 and .tor < 0.334'
    must_fail Mars/Olympus tor measure offsets --zone Mars/Olympus
    must_fail ../../etc tor measure offsets --zone ../../etc/passwd
    must_fail other tor measure offsets --zone other=UTC
    sed 's/+0200/ XYZ/' offsets >unknown
    measure unknown
    same '[.notes[].what | contains("zone")] | any'
    # steps in UTC, accounting two hours ahead
    iterations 1 360 1 10 '2026-06-14 08:00:00' >log
    printf '%s\n' 'JobID|State|Submit|Start|End' '7|COMPLETED|2026-06-14T09:50:00|2026-06-14T09:55:00|2026-06-14T11:01:00' >sacct
    measure log sacct
    same '[.notes[].what | contains("+2 h")] | any'
    measure log sacct --zone sacct=+02:00
    same '.notes == [] and $l["waiting-for-nodes"] == 300 and $l["restart-and-load"] == 300 and $l["healthy-progress"] == 3600'
}

@test "chained jobs wait only where none runs; accounting alone does not know what running was for" {
    { iterations 1 99 1 30 '2026-06-14 10:10:00'; iterations 100 200 1 30 '2026-06-14 11:11:00'; } >log
    printf '%s\n' 'JobID|State|Submit|Start|End' '900_1|TIMEOUT|2026-06-14T09:50:00|2026-06-14T10:00:00|2026-06-14T11:00:00' \
        '900_2|COMPLETED|2026-06-14T09:50:00|2026-06-14T11:01:00|2026-06-14T12:01:30' \
        '900_[3-9]|PENDING|2026-06-14T09:50:00|Unknown|Unknown' >sacct
    measure log sacct
    same '$l["waiting-for-nodes"] == 660 and $l["restart-and-load"] == 1200 and .attempts == 2 and .failures == 0'
    measure sacct
    same '$l["waiting-for-nodes"] == 660 and $l.unknown == 7230 and $l["work-rolled-back"] == 0 and .tor == null'
    # steps of jobs, either name of the job's column, blanks for bars
    printf '%s\n' 'JobIDRaw|JobName|State|ExitCode|Submit|Start|End' '131|t|NODE_FAIL|1:0|2026-06-14T09:50:00|2026-06-14T10:00:00|2026-06-14T12:00:00' \
        '131.batch|b|CANCELLED|0:15|2026-06-14T10:00:00|2026-06-14T10:00:00|2026-06-14T12:00:00' \
        '132|t|COMPLETED|0:0|2026-06-14T12:05:00|2026-06-14T12:10:00|2026-06-14T14:10:00' \
        '132.0|p|COMPLETED|0:0|2026-06-14T12:10:02|2026-06-14T12:10:02|2026-06-14T14:10:00' >raw
    measure raw
    same '.attempts == 2 and .failures == 1 and $l["waiting-for-nodes"] == 900 and $l.unknown == 14700'
    printf '%s\n' 'JobID             State              Submit               Start                 End ' \
        '------------ ---------- ------------------- ------------------- ------------------- ' \
        '131           NODE_FAIL 2026-06-14T09:50:00 2026-06-14T10:00:00 2026-06-14T12:00:00 ' \
        '131.batch    CANCELLED+ 2026-06-14T10:00:00 2026-06-14T10:00:00 2026-06-14T12:00:00 ' \
        '132           COMPLETED 2026-06-14T12:05:00 2026-06-14T12:10:00 2026-06-14T14:10:00 ' >fixed
    measure fixed
    same '.attempts == 2 and .failures == 1 and $l["waiting-for-nodes"] == 900 and $l.unknown == 14700'
    # of a chain whose first log was not given, the first job is unknown, not lost
    grep '2026-06-14 1[12]:' log | grep -v ' 11:00:00' >second
    measure second sacct
    same '$l["restart-and-load"] == 600 and $l.unknown == 3600'
}

@test "absurd times are refused, with what they seem to be" {
    printf '%s\n' '{"time":1787392800000,"event":"start"}' '{"time":1787392820000,"event":"step","step":1,"duration_s":10}' >ms
    must_fail milliseconds tor measure ms
    printf '%s\n' '{"time":1787392800,"event":"start"}' '{"time":1787392820,"event":"step","step":1,"duration_s":1e10}' >long
    must_fail 'ten years' tor measure long
    printf '%s\n' '{"time":0,"event":"start"}' '{"time":1787392820,"event":"step","step":1,"duration_s":10}' >zero
    must_fail years tor measure zero
    printf '\xff\xfe{\0' >utf16
    must_fail UTF-16 tor measure utf16
    iterations 1 3 1 10 '2026-03-02 10:00:00' | sed 's/\[.*\]//' >unstamped
    must_fail 'no time stamp' tor measure unstamped
}

@test "options that an action would pass over are refused; units are read" {
    iterations 1 3 1 10 '2026-03-02 10:00:00' >log
    must_fail --nodes tor measure log --nodes 4
    must_fail --faults tor measure log --faults x
    must_fail --zone tor plan --work 1d --zone UTC
    must_fail --seed tor plan --work 1d --seed 2
    must_fail --ideal-step tor simulate --work 1d --ideal-step 2s
    must_fail --fault-nodes tor plan --work 1d --fault-nodes 2
    for work in 30d '720 hours' '720 hrs' '43200 minutes' 43200Mins '2592000 seconds' '4.2857142857142857 weeks'; do
        "$HINDMOST" tor plan --work "$work" --json - | jq -e '.t_opt_s - 2592000 | fabs < 1e-3' >/dev/null
    done
    must_fail 5M tor plan --work 5M
    must_fail fortnights tor plan --work '2 fortnights'
}

@test "a fault file holds the nodes that failed: the fleet is larger, and is asked for" {
    printf '[%s]' '{"node_id":"a","event_time":1,"event_type":"fault_start"},{"node_id":"b","event_time":3,"event_type":"fault_start"},
        {"node_id":"c","event_time":10,"event_type":"fault_start"}' >faults
    "$HINDMOST" tor plan --work 30d --faults faults 2>err >/dev/null
    grep -q 'hindmost: faults: .*the fleet is larger.*--fault-nodes' err
    "$HINDMOST" tor plan --work 30d --faults faults --fault-nodes 40 2>err >/dev/null
    [ ! -s err ]
}

@test "the cases from outside have their right answers" {
    need_shared_data outside-cases/node-tor
    dir=$(cd "$SHARED_DATA/outside-cases/node-tor" && pwd)
    for logs in "$dir/node7.log" "$dir/node0.log $dir/node7.log"; do
        measure $logs
        same '.saves == 1 and $l["checkpoint-saving"] == 30'
    done
    for log in stamp-before-prefix seconds; do
        measure "$dir/$log.log"
        same '.steps_kept == 3 and $l["healthy-progress"] == 30'
    done
    measure "$dir/chain.log" "$dir/chain.sacct"
    same '$l["waiting-for-nodes"] == 660 and $l["restart-and-load"] == 1200'
    measure "$dir/chain.sacct"
    same '$l["waiting-for-nodes"] == 660 and $l.unknown == 7200'
    measure "$dir/jobidraw.sacct"
    same '.attempts == 2 and .failures == 1'
    measure "$dir/zone-without-colon.jsonl"
    same '.t_obs_s == 30 and .tor > 0.333 and .tor < 0.334'
    must_fail 58610 tor measure "$dir/epoch-ms.jsonl"
    measure "$dir/bom.jsonl"
    same '.steps_kept == 1'
    measure "$dir/xid79-dmesg-colour.log" # a training log in colours
    same '.steps_kept == 200'
}
