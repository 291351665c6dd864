# node_serve.bats - the ledger's metrics over HTTP and HTTPS, by a real server and curl.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export HINDMOST_LEDGER=$BATS_TEST_TMPDIR/nodes.db
    "$HINDMOST" node add a --class h100
    "$HINDMOST" node add b --class 'odd "class"\'
}

teardown() { [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; }

# Starts a server with these options; $server and $port tell where.
serve() {
    "$HINDMOST" node serve --listen 127.0.0.1:0 "$@" >said 2>complaint 3>&- &
    server=$!
    for _ in $(seq 100); do grep -q port said && break; sleep 0.05; done
    port=$(sed -n 's/.* on port //p' said)
    [ -n "$port" ] || { cat complaint; return 1; }
}

stopped() { # by SIGNAL: exit 0
    kill "-$1" "$server"
    wait "$server"
    server=
}

@test "what is served is what is exported, in Prometheus' text format, and follows the ledger" {
    serve
    curl -sS -D head "http://127.0.0.1:$port/metrics" >got
    grep -q '^HTTP/1.1 200' head
    grep -qi '^content-type: text/plain; version=0.0.4' head
    "$HINDMOST" node export --textfile t.prom
    cmp got t.prom
    # each line is a comment or a series; each series follows the TYPE of its name; no series twice
    awk '/^# (HELP|TYPE) / {if ($2 == "TYPE") type[$3] = 1; next}
        match($0, /^[a-z_]+/) && type[substr($0, 1, RLENGTH)] && /^[a-z_]+\{[a-z]+="([^"\\]|\\["\\n])*"(,[a-z]+="([^"\\]|\\["\\n])*")*\} [0-9.e+-]+$/ && !seen[$1 $2 $3]++ {next}
        {print "not Prometheus: " $0; bad = 1} END {exit bad}' got
    grep -qF 'hindmost_node_state{node="b",class="odd \"class\"\\",state="healthy"} 1' got
    grep -qx 'hindmost_nodes{state="healthy"} 2' got
    "$HINDMOST" node mark a --state suspect --why odd
    curl -sS "http://127.0.0.1:$port/metrics" | grep -qx 'hindmost_nodes{state="suspect"} 1'
    stopped TERM
}

@test "other paths and methods are refused, a lost ledger is told, the server lives on" {
    serve
    [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/secret")" = 404 ]
    [ "$(curl -s -o /dev/null -w '%{http_code}' -d x "http://127.0.0.1:$port/metrics")" = 405 ]
    [ "$(curl -s -I -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/metrics")" = 200 ]
    mkdir away
    mv nodes.db* away
    [ "$(curl -s -o lost -w '%{http_code}' "http://127.0.0.1:$port/metrics")" = 500 ]
    grep -q 'nodes.db: No such file' lost
    [ ! -e nodes.db ] # looking makes no ledger
    mv away/nodes.db* .
    curl -sSf "http://127.0.0.1:$port/metrics" >/dev/null
    stopped INT
}

@test "twenty at once, with writers beside them" {
    serve
    for i in $(seq 20); do
        curl -sSf "http://127.0.0.1:$port/metrics" -o "got$i" &
        "$HINDMOST" node add "n$i"
    done
    wait $(jobs -p | grep -vx "$server")
    for i in $(seq 20); do grep -q '^hindmost_nodes' "got$i"; done
    stopped TERM
}

@test "HTTPS" {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
    serve --tls-certificate cert.pem --tls-key key.pem
    curl -sSf --cacert cert.pem "https://127.0.0.1:$port/metrics" | grep -q hindmost_nodes
    stopped TERM
}

@test "bad addresses, a port that is taken, half a key: one line, exit 3" {
    serve
    must_fail "in use" node serve --listen "127.0.0.1:$port"
    must_fail "ADDRESS:PORT" node serve --listen 9633
    must_fail "ADDRESS:PORT" node serve --listen 127.0.0.1:port
    must_fail "ADDRESS:PORT" node serve --listen 127.0.0.1:70000
    must_fail "both" node serve --listen 127.0.0.1:0 --tls-key x
    must_fail "PEM" node serve --listen 127.0.0.1:0 --tls-key x --tls-certificate y
    stopped TERM
}
