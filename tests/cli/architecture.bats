# architecture.bats - what docs/architecture.md promises about the sources.

load ../helper

# Rooms from the ground up, and what each may include besides itself and the public headers.
may_include() {
    case $1 in
    base) ;;
    trace | node | tor | series) echo base ;;
    job | hang) echo base trace ;;
    replay) echo base trace job ;;
    whatif) echo base trace job replay ;;
    diagnose) echo base trace job replay whatif ;;
    watch) echo base trace job replay whatif diagnose node ;;
    report) echo base trace job replay whatif diagnose node tor ;;
    esac
}

@test "an arrow never goes up" {
    local bad=0 room file included
    for room in "$SOURCE"/src/*/; do
        room=$(basename "$room")
        [ "$room" = cli ] && continue
        for file in "$SOURCE/src/$room"/*.[ch]; do
            for included in $(sed -n 's|^#include "\([a-z_]*\)/[^"]*".*|\1|p' "$file" | sort -u); do
                [ "$included" = hindmost ] || [ "$included" = "$room" ] || grep -qw "$included" <<<"$(may_include "$room")" || {
                    echo "${file#"$SOURCE"/} includes room $included"
                    bad=1
                }
            done
        done
    done
    [ $bad = 0 ]
}

@test "every source says first what it is for" {
    local bad=0 file
    for file in "$SOURCE"/src/*/*.[ch] "$SOURCE"/include/hindmost/*.h "$SOURCE"/tests/*/*.[ch]; do
        head -1 "$file" | grep -qE "^/\* (hindmost/)?$(basename "$file") - " || {
            echo "${file#"$SOURCE"/}: $(head -1 "$file")"
            bad=1
        }
    done
    [ $bad = 0 ]
}

@test "every room stands in docs/architecture.md" {
    for room in "$SOURCE"/src/*/; do grep -q "src/$(basename "$room")" "$SOURCE/docs/architecture.md"; done
}

@test "memory comes from hm_alloc in the library, so that every allocation can be failed" {
    grep -nE '(^|[^_a-z])(malloc|calloc|realloc|strdup|strndup|asprintf)\(' "$SOURCE"/src/{trace,job,replay,whatif,diagnose,report,node,tor}/*.c | none
    grep -nE '(^|[^_a-z])(exit|abort|assert|printf|puts)\(' "$SOURCE"/src/{base,trace,job,replay,whatif,diagnose,report,node,tor}/*.c | none
}

@test "no network address in the sources" {
    cd "$SOURCE"
    git grep -nE 'https?://' -- src include scripts cmake CMakeLists.txt tests '*.json' '*.bats' | grep -vE 'www\.w3\.org/(2000|1999)|json-schema\.org|://127\.0\.0\.1' | none
}

# bats stops at a command that fails; but not at `! command`, nor at the left side of `&&`, unless it is a test's last.
@test "no assertion that cannot fail: one a line, and none begins with !" {
    cd "$SOURCE"
    grep -nE '^ *(! |\[+ .* \]+ && )' tests/*/*.bats | grep -vE '(\|\| |&& )(break|continue|return|skip|exit)|&& (\{|[a-z_]+\+?=)' | none
}
