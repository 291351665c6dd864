# manual.bats - the manual page is well-formed and knows the subcommands and their options.

load ../helper

subcommands() { "$HINDMOST" help | sed -n 's/^  \([a-z]\{1,\}\)  .*/\1/p'; }

@test "every subcommand stands in the manual and has a help of its own" {
    [ "$(subcommands | wc -l)" -ge 3 ]
    for name in $(subcommands); do
        grep -q "hindmost $name" "$SOURCE/docs/hindmost.1" || {
            echo "$name is not in docs/hindmost.1"
            return 1
        }
        "$HINDMOST" help "$name" | grep -q "usage: hindmost $name"
        diff <("$HINDMOST" help "$name") <("$HINDMOST" "$name" --help)
        [ "$("$HINDMOST" "$name" --version)" = "$("$HINDMOST" --version)" ]
    done
}

@test "the options of all subcommands stand in the manual" {
    local missing=0
    for name in $(subcommands); do
        for option in $("$HINDMOST" help "$name" | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u); do
            sed 's/\\-/-/g; s/\\f.//g; s/"//g' "$SOURCE/docs/hindmost.1" | grep -qE -- "$option( |\$|,|=)" || {
                echo "hindmost $name $option is not in docs/hindmost.1"
                missing=1
            }
        done
    done
    [ $missing = 0 ]
}

@test "the manual formats without a warning" {
    command -v man >/dev/null && command -v groff >/dev/null || skip "no man, no groff"
    [ -z "$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z "$SOURCE/docs/hindmost.1" 2>&1 >/dev/null)" ]
}

@test "an unknown subcommand, an unknown option, a missing value: exit 3 and one line" {
    must_fail nonsense nonsense
    must_fail --nonsense analyze --nonsense trace
    must_fail --json analyze trace --json
    must_fail --per-step analyze trace --per-step=1
    for bad in 0 -1 x 1.5 ''; do must_fail threads analyze --threads="$bad" trace; done
    status=0
    "$HINDMOST" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
    [ $status = 3 ]
    [ ! -s "$BATS_TEST_TMPDIR/out" ]
    grep -q usage "$BATS_TEST_TMPDIR/err"
}
