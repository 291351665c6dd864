# probe_python.bats - hindmost_probe.py: alone, and around a data-parallel job of Debian's torch.

load ../helper
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST_OFF HINDMOST_RECORDS RANK WORLD_SIZE LOCAL_RANK
    export HINDMOST_DIR=$PWD/rings HINDMOST_JOB=job PYTHONPATH=$SOURCE/probe PYTHONDONTWRITEBYTECODE=1
    python=/usr/bin/python3
}

need_torch() {
    "$python" -c 'import torch.distributed' 2>/dev/null || skip "no torch: $python cannot import it (Debian: python3-torch)"
}

# ddp RANKS ARGUMENTS...: runs the example; every rank must end well. Rank 0's words are left in `said`.
ddp() {
    local ranks=$1 port=$((20000 + RANDOM % 20000)) pids=() r
    shift
    for r in $(seq 0 $((ranks - 1))); do
        RANK=$r WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 \
            timeout 300 "$python" "$SOURCE/examples/ddp/train.py" "$@" >"said.$r" 2>&1 &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || { cat said.*; return 1; }; done
    cp said.0 said
}

one() { sql "$1" | grep -oE -- '-?[0-9]+$' | tail -1; }

@test "the syntax is Python 3.8's" {
    "$python" -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 8))' "$SOURCE/probe/hindmost_probe.py"
    local other
    for other in python3.8 python3.9 python3.10 python3.12 python3.13 python3; do
        $other -c pass 2>/dev/null || continue
        HINDMOST_DIR=$PWD/$other $other -c 'import hindmost_probe as p; p.step(); p.region("x").__enter__().__exit__(None, None, None)'
        [ "$("$HINDMOST" ring $other | grep -c 'compute    x')" = 1 ]
    done
}

@test "without torch: regions, data, steps, failures, threads, a child" {
    RANK=2 WORLD_SIZE=4 "$python" - <<'END'
import os, threading
import hindmost_probe as probe
assert probe.open(dp=1)
for batch in probe.data(range(3)):
    probe.step()
    with probe.region("forward", tokens=512, microbatch=3):
        with probe.collective("all_reduce", "tp", ranks=[2, 3], bytes=64):
            pass
try:
    with probe.region("broken"):
        raise KeyError("the script's own")
except KeyError:
    pass
else:
    raise SystemExit("the script's own exception was swallowed")
def many():
    for _ in range(1000):
        with probe.region("thread"):
            pass
threads = [threading.Thread(target=many) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
child = os.fork()
if child == 0:
    with probe.region("child", kind="io"):
        pass
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
END
    "$HINDMOST" ring rings >out
    [ "$(grep -c 'compute    thread' out)" = 4000 ]
    [ "$(grep -c 'compute    forward .* microbatch=3 tokens=512$' out)" = 3 ]
    [ "$(grep -c 'collective all_reduce .* group=tp members=2-3 seq=[012] bytes=64$' out)" = 3 ]
    [ "$(grep -c 'compute    broken .* failed$' out)" = 1 ]
    [ "$(grep -c '  2 .* data       data' out)" = 3 ]
    grep -q 'in process [0-9]* (forked, ' out
    grep -q 'io         child' out
    [ "$(grep -c ' 0 unfinished, 0 refused' out)" = 2 ]
}

@test "no room, no right, off, faults of its own: the script goes on, and it is said once" {
    HINDMOST_DIR=/proc/none "$python" -c '
import hindmost_probe as probe
for x in probe.data(range(3)):
    with probe.region("x"): pass
    probe.step()
print("went on")' >out 2>err
    [ "$(cat out)" = "went on" ]
    [ "$(grep -c 'hindmost-probe: not recording' err)" = 1 ]
    HINDMOST_OFF=1 "$python" -c '
import hindmost_probe as probe
probe.attach(None); probe.step()
with probe.region("x"): pass
assert probe.path() is None' 2>err
    [ ! -s err ]
    "$python" -c '
import hindmost_probe as probe
probe.step()
def broken(*a): raise ValueError("inside the probe")
probe._probe.ring.record = broken
for i in range(20):
    with probe.region("x"): pass
    probe.step()
print("went on")' >out 2>err
    [ "$(cat out)" = "went on" ]
    [ "$(grep -c 'inside the probe' err)" = 1 ]
}

@test "hooks of newer torch, recorded by a stand-in: process-group and optimizer hooks are used and removed" {
    "$python" - <<'END'
import hindmost_probe as probe
calls = []
class Handle:
    def __init__(self, name): self.name = name
    def remove(self): calls.append("remove " + self.name)
class Group:
    def register_pre_hook(self, number, hook): self.pre = hook; calls.append("pre")
    def register_post_hook(self, number, hook): self.post = hook; calls.append("post")
    def remove_pre_hook(self, number): calls.append("remove pre")
    def remove_post_hook(self, number): calls.append("remove post")
class Model:
    process_group = Group()
    def register_forward_pre_hook(self, hook): self.before = hook; return Handle("before")
    def register_forward_hook(self, hook): self.after = hook; return Handle("after")
class Optimizer:
    def register_step_pre_hook(self, hook): self.pre = hook; return Handle("step pre")
    def register_step_post_hook(self, hook): self.post = hook; return Handle("step post")
import types, sys
torch, dist = types.ModuleType("torch"), types.ModuleType("torch.distributed")
torch.is_grad_enabled = lambda: True
dist.get_process_group_ranks = lambda group: [0, 1]
torch.distributed = dist
sys.modules.update({"torch": torch, "torch.distributed": dist})
model, optimizer = Model(), Optimizer()
a = probe.attach(model, optimizer)
assert not a.notes, a.notes
for i in range(2):
    model.before(model, ()); model.after(model, (), None)
    model.process_group.pre({"name": "all_gather", "async_op": False, "op_id": i})
    model.process_group.post({"name": "all_gather", "async_op": False, "op_id": i})
    optimizer.pre(optimizer, (), {}); optimizer.post(optimizer, (), {})
probe.detach()
assert sorted(calls) == sorted(["pre", "post", "remove pre", "remove post", "remove before", "remove after", "remove step pre", "remove step post"]), calls
END
    "$HINDMOST" ring rings >out
    [ "$(grep -c 'collective all_gather .* group=default members=0-1 seq=[01]$' out)" = 2 ]
    [ "$(grep -cE 'compute    (forward|backward|optimizer) ' out)" = 6 ]
}

@test "DDP: what each rank did by itself stands in the recording, and the slow rank is the slow one" {
    need_torch
    ddp 3 --steps 8 --slow 1:4 --truth truth
    "$HINDMOST" ring rings --as events -o events.csv
    # every step of every rank: data, forward, backward, optimizer, the buckets (torch splits them after the first step) and as many waits
    [ "$(one "SELECT count(*) FROM (SELECT rank, step FROM 'events.csv' WHERE step < 8 GROUP BY ALL HAVING count(*) FILTER (name = 'data') >= 1 AND
        count(*) FILTER (name = 'forward') >= 1 AND count(*) FILTER (name = 'backward') >= 1 AND count(*) FILTER (name = 'optimizer') = 1 AND
        count(*) FILTER (kind = 'collective') >= least(step + 1, 2) AND count(*) FILTER (kind = 'wait') = count(*) FILTER (kind = 'collective'))")" = 24 ]
    # a rank cannot have done what it stamps in less than what is recorded
    cat truth.* | sed '1i rank,step,phase,seconds' >truth.csv
    [ "$(one "SELECT count(*) FROM 'truth.csv' t JOIN (SELECT rank, step, name, sum(end_ns - start_ns) / 1e9 s FROM 'events.csv' GROUP BY ALL) e
        ON t.rank = e.rank AND t.step = e.step AND t.phase = e.name WHERE e.s >= t.seconds")" = 48 ]
    # by own time rank 1 is the slowest in most steps; by what waiting shows it is the one that waits least
    [ "$(one "SELECT rank FROM (SELECT rank, median(s) m FROM (SELECT rank, step, sum(end_ns - start_ns) s FROM 'events.csv'
        WHERE name IN ('forward', 'backward') GROUP BY ALL) GROUP BY rank ORDER BY m DESC LIMIT 1)")" = 1 ]
    [ "$(one "SELECT rank FROM (SELECT rank, median(s) m FROM (SELECT rank, step, sum(end_ns - start_ns) s FROM 'events.csv'
        WHERE kind = 'wait' GROUP BY ALL) GROUP BY rank ORDER BY m LIMIT 1)")" = 1 ]
    # the same bucket has the same number on all ranks
    [ "$(one "SELECT count(*) FROM (SELECT step, seq, count(DISTINCT bytes) b, count(DISTINCT rank) r FROM 'events.csv' WHERE kind = 'collective' AND step > 0 GROUP BY ALL) WHERE b <> 1 OR r <> 3")" = 0 ]
}

@test "DDP: the parameters are the same to the last bit, with the probe, without, detached half way, with a hook of the user's" {
    need_torch
    local how
    for how in off on detach hook; do
        HINDMOST_JOB=$how ddp 3 --steps 4 --seconds 0 --probe $how
        [ $how = hook ] || sed 's/,.*//' said >"parameters.$how"
        grep -v '^parameters\|^steps\|UserWarning\|warn' said | none
    done
    cmp parameters.off parameters.on
    cmp parameters.off parameters.detach
    grep -qE 'own hook called [1-9][0-9]* times' said
    [ ! -e rings/off ]
    "$HINDMOST" ring rings/hook | grep -q 'collective all_reduce'
}

@test "a hook that DDP has already is left alone, and said; a scheduler after attach works" {
    need_torch
    RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 20000)) GLOO_SOCKET_IFNAME=lo "$python" - >out 2>err <<'END'
import torch, torch.distributed as dist
import hindmost_probe as probe
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
calls = []
def mine(state, bucket):
    calls.append(1)
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
model.register_comm_hook(None, mine)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
a = probe.attach(model, optimizer)
assert len(a.notes) == 1 and "left alone" in a.notes[0], a.notes
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    scheduler.step()
assert calls, "the user's hook was not called"
probe.detach()
optimizer.step()
with torch.no_grad():
    model(torch.ones(2, 4))
print("good")
END
    [ "$(cat out)" = good ]
    [ "$(grep -c '^hindmost-probe: ' err)" = 1 ]
    [ "$("$HINDMOST" ring rings | grep -c 'compute    optimizer')" = 3 ]
}
