# install.bats - the installed library as others meet it: another prefix, pkg-config, the example built against it.

load ../helper

setup_file() {
    export PREFIX="$BATS_FILE_TMPDIR/prefix" MOVED="$BATS_FILE_TMPDIR/moved"
    cmake --install "$BUILD" --prefix "$PREFIX" >"$BATS_FILE_TMPDIR/log" 2>&1
    cp -a "$PREFIX" "$MOVED" # nothing in it may remember where it was built or first installed
}

# The compiler that built the library knows its own sanitizer's run time.
compiler() { sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$BUILD/CMakeCache.txt"; }
instrumented() { grep -qE '^HM_(SANITIZE|COVERAGE):BOOL=ON' "$BUILD/CMakeCache.txt"; }

@test "the program, the library, the headers, the manual and pkg-config's file are installed" {
    [ -x "$PREFIX/bin/hindmost" ]
    [ -e "$PREFIX/share/man/man1/hindmost.1" ]
    find "$PREFIX" -name libhindmost.so | grep -q .
    find "$PREFIX" -name hindmost.pc | grep -q .
    for header in "$SOURCE"/include/hindmost/*.h; do cmp "$header" "$PREFIX/include/hindmost/${header##*/}"; done
}

@test "the installed program runs where it was moved to" {
    [ "$("$MOVED/bin/hindmost" --version)" = "$("$HINDMOST" --version)" ]
    "$BUILD/tests/job" "$BATS_TEST_TMPDIR/job.csv"
    "$MOVED/bin/hindmost" analyze --json "$BATS_TEST_TMPDIR/moved.json" "$BATS_TEST_TMPDIR/job.csv"
    "$HINDMOST" analyze --json "$BATS_TEST_TMPDIR/built.json" "$BATS_TEST_TMPDIR/job.csv"
    cmp "$BATS_TEST_TMPDIR/moved.json" "$BATS_TEST_TMPDIR/built.json"
    ldd "$MOVED/bin/hindmost" | grep -F "$BUILD" | none
}

@test "the program links the shared library and none of the library's own dependencies" {
    readelf -d "$HINDMOST" | grep NEEDED >"$BATS_TEST_TMPDIR/needed"
    grep -q libhindmost "$BATS_TEST_TMPDIR/needed"
    grep -E 'duckdb|yaml|jansson|sqlite|libz' "$BATS_TEST_TMPDIR/needed" | none
    # and its sources see public headers only
    grep -hE '^#include "' "$SOURCE"/src/cli/*.[ch] | grep -vE '"(hindmost/)?[a-z_]+\.h"' | none
}

@test "the shared library exports hm_ symbols only, and every function of the headers" {
    local library=$(find "$PREFIX" -name 'libhindmost.so')
    nm -D --defined-only "$library" | awk '{print $NF}' >"$BATS_TEST_TMPDIR/exported"
    local foreign='^hm_'
    instrumented && foreign='^(hm_|__asan|__ubsan|__gcov|__odr_asan|_init$|_fini$|mangle_path)'
    grep -vE "$foreign" "$BATS_TEST_TMPDIR/exported" | none
    cat "$SOURCE"/include/hindmost/*.h | grep -oE '\bhm_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$BATS_TEST_TMPDIR/declared"
    grep -hA3 'HM_API' "$SOURCE"/include/hindmost/*.h | grep -oE '\bhm_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$BATS_TEST_TMPDIR/public"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/public")" -gt 10 ]
    [ -d "$SOURCE/src/diagnose" ] || sed -i '/^hm_diagnos/d' "$BATS_TEST_TMPDIR/public" # declared ahead of its room
    local missing=$(comm -23 "$BATS_TEST_TMPDIR/public" <(sort -u "$BATS_TEST_TMPDIR/exported"))
    [ -z "$missing" ] || {
        echo "declared but not exported: $missing"
        false
    }
}

@test "the example builds with pkg-config from the moved prefix and prints S" {
    instrumented && skip "an instrumented library wants its own flags"
    local pc=$(dirname "$(find "$MOVED" -name hindmost.pc)") flags
    flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs hindmost)
    [[ "$flags" == *"$MOVED"* && "$flags" != *"$PREFIX/"* ]]
    # shellcheck disable=SC2086
    "$(compiler)" -Wall -Werror "$SOURCE/docs/examples/slowdown.c" -o "$BATS_TEST_TMPDIR/slowdown" $flags
    local lib=$(dirname "$(find "$MOVED" -name libhindmost.so)")
    "$BUILD/tests/job" "$BATS_TEST_TMPDIR/job.csv"
    "$HINDMOST" analyze --json "$BATS_TEST_TMPDIR/job.json" "$BATS_TEST_TMPDIR/job.csv"
    LD_LIBRARY_PATH=$lib "$BATS_TEST_TMPDIR/slowdown" "$BATS_TEST_TMPDIR/job.csv" >"$BATS_TEST_TMPDIR/printed"
    grep -qF "S = $(jq -r '.slowdown * 10000 | round / 10000' "$BATS_TEST_TMPDIR/job.json")" "$BATS_TEST_TMPDIR/printed"
    local status=0
    LD_LIBRARY_PATH=$lib "$BATS_TEST_TMPDIR/slowdown" "$BATS_TEST_TMPDIR/none.csv" 2>"$BATS_TEST_TMPDIR/error" || status=$?
    [ $status = 3 ]
    grep -q "none.csv: No such file" "$BATS_TEST_TMPDIR/error"
    [ "$(wc -l <"$SOURCE/docs/examples/slowdown.c")" -le 45 ]
}

@test "all headers go together, in C and in C++" {
    for header in "$SOURCE"/include/hindmost/*.h; do echo "#include <hindmost/${header##*/}>"; done >all.h
    "$(compiler)" -std=c17 -Wall -Werror -I"$SOURCE/include" -fsyntax-only -x c all.h
    if command -v g++ >/dev/null; then g++ -Wall -Werror -I"$SOURCE/include" -fsyntax-only -x c++ all.h; fi
}

@test "the headers stand alone, in C and in C++" {
    for header in "$SOURCE"/include/hindmost/*.h; do
        echo "#include <hindmost/${header##*/}>" | "$(compiler)" -std=c17 -Wall -Werror -I"$SOURCE/include" -fsyntax-only -x c -
        if command -v g++ >/dev/null; then echo "#include <hindmost/${header##*/}>" | g++ -Wall -Werror -I"$SOURCE/include" -fsyntax-only -x c++ -; fi
    done
}
