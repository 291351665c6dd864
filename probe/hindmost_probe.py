"""hindmost_probe - record what a rank does, from inside a training script. One file, no dependency, with or without torch.

    import hindmost_probe as probe
    probe.attach(model, optimizer, dataloader)      # DDP: data, forward, backward, every bucket, optimizer, steps

or by hand:

    for batch in probe.data(loader):
        with probe.region("forward"):
            ...
        probe.step()

Records go to a ring in shared memory (docs/ring.md), which `hindmost ring` prints and `hindmost analyze` reads. Nothing here
synchronises a device, hooks a parameter, or lets an exception of its own reach the training script: it says on stderr, once, what it
cannot do. Environment: HINDMOST_DIR, HINDMOST_JOB, HINDMOST_RECORDS, HINDMOST_OFF=1, and RANK, WORLD_SIZE as torchrun sets them.
"""

import gc
import itertools
import mmap
import os
import platform
import socket
import stat
import struct
import sys
import threading
import time
import types

__all__ = ["open", "close", "path", "step", "region", "collective", "data", "record", "attach", "detach"]

_KINDS = ("compute", "collective", "send", "recv", "wait", "data", "io", "gc", "idle", "marker")
_KIND = {name: number for number, name in enumerate(_KINDS, 1)}
TOKENS, ASYNC, ENQUEUED, DEVICE, FAILED = 1, 2, 4, 8, 16
NO_SEQ = 0xFFFFFFFF

_MAGIC = b"\x89HMRING\n"
_PAGE, _HEADER, _RECORD, _PAIRS = 4096, 65536, 64, 64
_LEAST, _MOST = 64, 1 << 24
_FIXED = struct.Struct("<8s4I2Q3i3IQ16s5i3I2q64s64s64s16s")
_SLOT = struct.Struct("<Q3qQ2iI2H2BH2h")
_NAME = struct.Struct("<HBB4x")
_PAIR_EVERY_NS = 10000000000

assert _FIXED.size == 344 and _SLOT.size == _RECORD

if hasattr(time, "clock_gettime_ns"):

    def now(_read=time.clock_gettime_ns, _clock=time.CLOCK_MONOTONIC):
        return _read(_clock)

else:
    now = time.monotonic_ns


# ---- the ring: docs/ring.md, written with mmap and struct alone ----


def _first(*names):
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _number(otherwise, *names):
    try:
        value = int(_first(*names) or otherwise)
        return value if 0 <= value < 1 << 31 else otherwise
    except ValueError:
        return otherwise


def _file_name(text):
    clean = "".join("_" if c == "/" or c < " " or c == "\x7f" else c for c in text)
    return "_" + clean[1:] if clean[:1] in ("", ".") else clean


def _read_small(name):
    try:
        with _builtin_open(name, "rb") as f:
            return f.read(4096)
    except OSError:
        return b""


_builtin_open = open


def _start_time():
    fields = _read_small("/proc/self/stat").rpartition(b")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _boot_id():
    digits = _read_small("/proc/sys/kernel/random/boot_id").decode().strip().replace("-", "")
    return bytes.fromhex(digits) if len(digits) == 32 else bytes(16)


def _clocks():
    before, wall, after = now(), time.time_ns(), now()
    return before + (after - before) // 2, wall


def _open_folder(name, shared, at=None):
    """A folder that nobody else can change things in: ours (or root's), closed to others' writing or sticky."""
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        pass
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    seen = os.fstat(fd)
    ours = seen.st_uid == os.geteuid() or (shared and seen.st_uid == 0)
    if not ours or (seen.st_mode & 0o022 and not (shared and seen.st_mode & stat.S_ISVTX)):
        os.close(fd)
        raise PermissionError("%s: belongs to another user or is open to their writing; remove it or set HINDMOST_DIR" % name)
    return fd


class _Ring:
    """A ring being written by this process. Its threads share it: the interpreter's lock makes one pack_into whole."""

    def __init__(self, options, names=(), forked=False):
        self.options, self.forked, self.pid = options, forked, os.getpid()
        self.ids, self.used, self.name_count = {}, 0, 0
        self.naming = threading.Lock()
        base = _open_folder(options["folder"], True)
        try:
            folder = _open_folder(options["job"], False, base)
        finally:
            os.close(base)
        try:
            self._make(folder)
        finally:
            os.close(folder)
        self.count, self.next_pair = itertools.count(), now() + _PAIR_EVERY_NS
        for key in names:
            self.enter(*key)
        self.words = memoryview(self.map).cast("Q")
        self.words[0] = struct.unpack("<Q", _MAGIC)[0]
        # x86 shows stores to others in their order; elsewhere a lock's release keeps the content before the state
        self.fence = None if platform.machine() in ("x86_64", "AMD64") else threading.Lock()

    def _make(self, folder):
        o = self.options
        for serial in range(1000):
            name = "rank%d.%s.%d.%d.ring" % (o["rank"], o["face"], self.pid, serial)
            try:
                fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
                break
            except FileExistsError:
                if serial == 999:
                    raise
        try:
            self.path = os.path.join(o["folder"], o["job"], name)
            self.capacity = self._take_space(fd)
            self.map = mmap.mmap(fd, _HEADER + self.capacity * _RECORD)
            self.mask = self.capacity - 1
            self._fill_header()
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(fd)

    def _take_space(self, fd):
        """All space now: a page without room later would be a SIGBUS in the middle of training. A full disk gets a smaller ring."""
        import resource

        capacity = _LEAST
        while capacity < min(self.options["records"], _MOST):
            capacity *= 2
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        while True:
            size = _HEADER + capacity * _RECORD
            try:
                if limit != resource.RLIM_INFINITY and size > limit:
                    raise OSError(27, "File too large")
                os.posix_fallocate(fd, 0, size)
                return capacity
            except OSError:
                if capacity <= _LEAST:
                    raise
                os.ftruncate(fd, 0)
                capacity //= 2

    def _fill_header(self):
        o = self.options
        mono, wall = _clocks()
        text = lambda value, size: value.encode("utf-8", "replace")[: size - 1]  # noqa: E731
        _FIXED.pack_into(
            self.map, 0, bytes(8), 1, _HEADER, _RECORD, self.capacity, 0, 0, o["rank"], o["world"], o["local_rank"],
            2 if self.forked else 0, self.pid, os.getppid(), _start_time(), _boot_id(), o["dp"], o["pp"], o["tp"], o["cp"], o["ep"],
            0, 0, 0, mono, wall, text(o["job"], 64), text(socket.gethostname(), 64), text(o["gpu"], 64), text(o["face"], 16),
        )  # fmt: skip

    def enter(self, kind, text):
        """The number of a name (kind 1) or group (kind 2), made if new; 0 without room."""
        key = (kind, text)
        found = self.ids.get(key)
        if found is not None:
            return found
        with self.naming:
            found = self.ids.get(key)
            if found is not None:
                return found
            size = (_NAME.size + len(text) + 1 + 7) // 8 * 8
            if size > _HEADER - _PAGE - self.used or self.name_count >= 65534:
                struct.pack_into("<I", self.map, 112, struct.unpack_from("<I", self.map, 112)[0] + 1)
                return 0
            at = _PAGE + self.used
            _NAME.pack_into(self.map, at, size, kind, 0)
            self.map[at + _NAME.size : at + _NAME.size + len(text)] = text
            self.used += size
            self.name_count += 1
            struct.pack_into("<I", self.map, 108, self.used)
            self.ids[key] = self.name_count
            return self.name_count

    def record(self, begin, end, launch, amount, step_, peer, seq, name, group, kind, flags, stream, microbatch, chunk):
        n = next(self.count)
        at = _HEADER + (n & self.mask) * _RECORD
        # state and content in one call, which no other thread of this interpreter can come between; then the state that says whole
        _SLOT.pack_into(self.map, at, 2 * n + 1, begin, end, launch, amount, step_, peer, seq, name, group, kind, flags, stream,
                        microbatch, chunk)  # fmt: skip
        words = self.words
        if self.fence:
            with self.fence:
                pass
        words[at >> 3] = 2 * n + 2
        if words[3] <= n:
            words[3] = n + 1

    def pair(self, time_ns):
        if time_ns < self.next_pair:
            return
        self.next_pair = time_ns + _PAIR_EVERY_NS
        n = struct.unpack_from("<I", self.map, 116)[0]
        struct.pack_into("<2q", self.map, 344 + n % _PAIRS * 16, *_clocks())
        struct.pack_into("<I", self.map, 116, n + 1)

    def close(self):
        flags = struct.unpack_from("<I", self.map, 52)[0]
        struct.pack_into("<I", self.map, 52, flags | 1)


# ---- the process's probe ----


class _Probe:
    def __init__(self):
        self.ring, self.off, self.options = None, False, {}
        self.step, self.explicit = -1, False
        self.said, self.faults = set(), 0
        self.parent_names = ()
        self.opening = threading.Lock()

    def say(self, text):
        if text not in self.said:
            self.said.add(text)
            try:
                sys.stderr.write("hindmost-probe: %s\n" % text)
            except Exception:
                pass

    def fault(self, error):
        """An error of our own: said once, and after ten of them the probe is off. It never reaches the training script."""
        self.faults += 1
        self.say("%s: %s; this was not recorded" % (type(error).__name__, error))
        if self.faults >= 10:
            self.off = True

    def get(self):
        """The ring, opened at the first call; None: not recording."""
        if self.ring is not None or self.off:
            return self.ring
        with self.opening:
            if self.ring is None and not self.off:
                self._open()
        return self.ring

    def _open(self):
        if os.environ.get("HINDMOST_OFF", "0") not in ("", "0"):
            self.off = True
            return
        options = {
            "folder": _first("HINDMOST_DIR") or "/dev/shm/hindmost-%d" % os.geteuid(),
            "job": _first("HINDMOST_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID") or "job",
            "face": "python",
            "gpu": "",
            "rank": _number(-1, "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"),
            "world": _number(-1, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
            "local_rank": _number(-1, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
            "records": _number(65536, "HINDMOST_RECORDS"),
        }
        options.update(dict.fromkeys(("dp", "pp", "tp", "cp", "ep"), -1))
        options.update({key: value for key, value in self.options.items() if value is not None})
        options["job"] = _file_name(str(options["job"])[:62])
        try:
            self.ring = _Ring(options, self.parent_names, bool(self.parent_names))
            self.ring.enter(1, b"step")
        except Exception as error:
            self.off = True
            self.say("not recording: %s" % error)

    def after_fork(self):
        """In a child: the mapping is the parent's. The first record opens a ring of its own, with the same numbers for names."""
        if self.ring is not None:
            ring, self.ring = self.ring, None
            self.parent_names = tuple(key for key, _ in sorted(ring.ids.items(), key=lambda item: item[1]))
        self.opening = threading.Lock()


_probe = _Probe()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_probe.after_fork)


def open(**options):
    """Opens the ring with options instead of the environment's: folder, job, rank, world, local_rank, gpu, records, dp, pp, tp, cp, ep.
    Before the first record; afterwards it changes nothing. True if recording."""
    if _probe.ring is None:
        _probe.options.update(options)
    return _probe.get() is not None


def close():
    """Marks the ring closed. Not needed: a ring is valid whenever its writer stops."""
    try:
        detach()
        ring, _probe.ring = _probe.ring, None
        if ring is not None:
            ring.close()
        _probe.off = True
    except Exception as error:
        _probe.fault(error)


def path():
    """The ring's file, or None."""
    ring = _probe.get()
    return ring.path if ring else None


def _text(name):
    return str(name).encode("utf-8", "replace")[:255].replace(b"\0", b"?")


def _members(ranks):
    out, i, ranks = [], 0, list(ranks)
    while i < len(ranks):
        j = i + 1
        stride = ranks[j] - ranks[i] if j < len(ranks) else 0
        while stride > 0 and j < len(ranks) and ranks[j] - ranks[j - 1] == stride:
            j += 1
        if j - i == 1 or (j - i == 2 and stride != 1):
            out.append("%d" % ranks[i])
            j = i + 1
        else:
            out.append("%d-%d%s" % (ranks[i], ranks[j - 1], ":%d" % stride if stride != 1 else ""))
        i = j
    return ",".join(out)


def _group(ring, name, ranks=None):
    text = _text(name)
    with_members = text + b"\0" + _members(ranks).encode() if ranks else text
    return ring.enter(2, with_members if len(with_members) < 60000 else text) or ring.enter(2, text)


def record(kind, name, begin, end, launch=0, bytes=0, tokens=0, step=None, peer=-1, seq=NO_SEQ, group=None, ranks=None, flags=0,
           stream=0, microbatch=-1, chunk=-1):  # fmt: skip
    """One event as it is; times in ns as now() gives them. group is a name, ranks its members."""
    try:
        ring = _probe.get()
        if ring is None:
            return
        ring.record(begin, end, launch, tokens or bytes, _probe.step if step is None else step, peer, seq, ring.enter(1, _text(name)),
                    _group(ring, group, ranks) if group is not None else 0, _KIND[kind], flags | (TOKENS if tokens else 0), stream,
                    microbatch, chunk)  # fmt: skip
    except Exception as error:
        _probe.fault(error)


def step(number=None):
    """A step begins, of this number (default: one more than the last). Whoever calls it takes the count over from attach()."""
    _probe.explicit = True
    _step(number)


def _step(number=None):
    try:
        ring = _probe.get()
        if ring is None:
            return
        _probe.step = _probe.step + 1 if number is None else int(number)
        t = now()
        ring.record(t, t, 0, 0, _probe.step, -1, NO_SEQ, ring.enter(1, b"step"), 0, 10, 0, 0, -1, -1)
        ring.pair(t)
    except Exception as error:
        _probe.fault(error)


class region:
    """with region("forward"): what happens inside is own time of that name. kind: compute, data, io, gc, idle."""

    __slots__ = ("name", "kind", "more", "begin")

    def __init__(self, name, kind="compute", **more):
        self.name, self.kind, self.more = name, kind, more

    def __enter__(self):
        self.begin = now()
        return self

    def __exit__(self, kind, value, trace):
        try:
            ring = _probe.ring or _probe.get()
            if ring is None:
                return None
            if not self.more:
                ring.record(self.begin, now(), 0, 0, _probe.step, -1, NO_SEQ, ring.enter(1, _text(self.name)), 0, _KIND[self.kind],
                            FAILED if kind else 0, 0, -1, -1)  # fmt: skip
            else:
                more = dict(self.more)
                more["flags"] = more.get("flags", 0) | (FAILED if kind else 0)
                record(self.kind, self.name, self.begin, now(), **more)
        except Exception as error:
            _probe.fault(error)
        return None


_numbers = {}


def _next_seq(group):
    return next(_numbers.setdefault(group, itertools.count())) % NO_SEQ


def collective(name, group, ranks=None, **more):
    """with collective("all_reduce", "tp", ranks=[0, 1]): a communication that the rank waits for. All members count alike."""
    return region(name, "collective", group=group, ranks=ranks, seq=_next_seq(group), **more)


def data(iterable):
    """Goes through the iterable; what each item takes to come is data loading."""
    iterator = iter(iterable)
    while True:
        begin = now()
        _backward_ends(begin)
        try:
            item = next(iterator)
        except StopIteration:
            return
        record("data", "data", begin, now())
        yield item


# ---- attach: a DDP model, its optimizer, its loader ----


class _Attachment:
    """What attach() changed, and how to undo it. What torch cannot remove (a comm hook, a class somebody built upon) passes through."""

    def __init__(self):
        self.active = True
        self.undo = []
        self.notes = []
        self.forward_from = self.backward_from = 0
        self.buckets = []

    def note(self, text):
        self.notes.append(text)
        _probe.say(text)


_attachments = []
_thread = threading.local()


def attach(model=None, optimizer=None, dataloader=None, comm_hook=None):
    """Records a training loop: data loading, forward, backward, the buckets of DistributedDataParallel, optimizer, and steps (one a call of
    optimizer.step, unless step() is called by hand). comm_hook: (state, hook) that would have gone to register_comm_hook. Returns an
    object whose `notes` say what could not be attached; detach() undoes all."""
    a = _Attachment()
    for what, how in ((model, _attach_model), (optimizer, _attach_optimizer), (dataloader, _attach_loader)):
        try:
            if what is not None and _probe.get() is not None:
                if how is _attach_model:
                    how(a, what, comm_hook)
                else:
                    how(a, what)
        except Exception as error:
            a.note("%s: cannot attach: %s" % (type(what).__name__, error))
    if _probe.get() is None and comm_hook is not None and hasattr(model, "register_comm_hook"):
        model.register_comm_hook(*comm_hook)  # the user's own hook is theirs, recorded or not
    _attachments.append(a)
    try:
        if _probe.ring is not None:
            _watch_gc(a)
            if _probe.step < 0:
                _step(0)
    except Exception as error:
        _probe.fault(error)
    return a


def detach():
    """Undoes every attach()."""
    while _attachments:
        a = _attachments.pop()
        a.active = False
        for undo in reversed(a.undo):
            try:
                undo()
            except Exception as error:
                _probe.fault(error)


def _quiet(function):
    """A hook of ours: returns nothing, raises nothing."""

    def hook(*arguments, **named):
        try:
            function(*arguments, **named)
        except Exception as error:
            _probe.fault(error)

    return hook


def _backward_ends(time_ns):
    for a in _attachments:
        if a.backward_from:
            record("compute", "backward", a.backward_from, time_ns)
            a.backward_from = 0


# -- forward and backward: two hooks on the outermost module, none on a parameter --


def _grad_enabled():
    torch = sys.modules.get("torch")
    return torch is None or torch.is_grad_enabled()


def _attach_model(a, model, comm_hook):
    @_quiet
    def before(*_):
        if a.active:
            t = now()
            _backward_ends(t)
            a.forward_from = t

    @_quiet
    def after(*_):
        if a.active and a.forward_from:
            t = now()
            record("compute", "forward", a.forward_from, t)
            a.forward_from = 0
            a.backward_from = t if _grad_enabled() else 0

    if hasattr(model, "register_forward_pre_hook") and hasattr(model, "register_forward_hook"):
        a.undo.append(model.register_forward_pre_hook(before).remove)
        a.undo.append(model.register_forward_hook(after).remove)
    else:
        a.note("%s has no forward hooks: forward and backward are not recorded; use region()" % type(model).__name__)
    if hasattr(model, "register_comm_hook"):
        _attach_buckets(a, model, comm_hook)
    group = getattr(model, "process_group", None)
    if hasattr(group, "register_pre_hook") and hasattr(group, "register_post_hook"):
        _attach_group(a, group)


# -- buckets: DDP's communication hook around the user's, or around DDP's own all-reduce --


def _all_reduce(group):
    import torch.distributed as dist

    scale = 1.0 / dist.get_world_size(group)

    def hook(state, bucket):
        # what DDP does by itself, to the last bit: it multiplies by the reciprocal, too
        tensor = bucket.buffer().mul_(scale)
        return dist.all_reduce(tensor, group=group, async_op=True).get_future().then(lambda future: future.value()[0])

    return hook


def _ranks_of(group):
    import torch.distributed as dist

    if hasattr(dist, "get_process_group_ranks"):
        return list(dist.get_process_group_ranks(group))
    ranks = getattr(dist.distributed_c10d, "_pg_group_ranks", {}).get(group)
    return sorted(ranks) if ranks else list(range(dist.get_world_size(group)))


def _attach_buckets(a, model, comm_hook):
    group = model.process_group
    ranks = _ranks_of(group)
    state, inner = comm_hook if comm_hook is not None else (None, _all_reduce(group))
    name = "ddp"

    def hook(state, bucket):
        if not a.active:
            return inner(state, bucket)
        begin = now()
        _thread.inside = True
        try:
            future = inner(state, bucket)
        finally:
            _thread.inside = False
        try:
            return _follow(a, future, bucket, begin, name, ranks)
        except Exception as error:
            _probe.fault(error)
            return future

    try:
        model.register_comm_hook(state, hook)
    except Exception as error:
        if comm_hook is not None:
            raise
        a.note("the model has a communication hook already, which is left alone (%s): buckets are not recorded; give it to attach(comm_hook=(state, hook))" % str(error).split("\n")[0])


def _follow(a, future, bucket, begin, name, ranks):
    seq = _next_seq(name)
    tensor = bucket.buffer()
    size = tensor.numel() * tensor.element_size()
    on_device = bool(getattr(tensor, "is_cuda", False))
    flags = ASYNC | (ENQUEUED if on_device else 0)
    last = bucket.is_last()
    step_ = _probe.step
    mine = [begin, 0, seq]
    if not a.buckets or a.buckets[-1][3]:
        a.buckets = []
    mine.append(last)
    a.buckets.append(mine)
    buckets = a.buckets
    if last:
        _backward_ends(begin)  # the last bucket's entry is the end of the rank's own backward

    def done(completed):
        try:
            mine[1] = now()
            record("collective", "all_reduce", begin, mine[1], bytes=size, step=step_, seq=seq, group=name, ranks=ranks, flags=flags, stream=1)
            if buckets[-1][3] and all(b[1] for b in buckets):
                _waits(buckets, name, ranks, step_)
        except Exception as error:
            _probe.fault(error)
        return completed.value()

    return future.then(done)


def _waits(buckets, name, ranks, step_):
    """The main line waits for the buckets one after the other, from the end of its own backward."""
    at = buckets[-1][0]
    for _, end, seq, _ in buckets:
        until = max(at, end)
        record("wait", "wait", at, until, step=step_, seq=seq, group=name, ranks=ranks)
        at = until


# -- all other collectives, where torch can say: ProcessGroup.register_pre_hook and register_post_hook (2026) --


def _attach_group(a, group):
    begun = {}
    ranks = _ranks_of(group)

    @_quiet
    def before(call):
        if a.active and not getattr(_thread, "inside", False):
            begun[_of(call, "op_id")] = now()

    @_quiet
    def after(call):
        begin = begun.pop(_of(call, "op_id"), 0)
        if a.active and begin:
            asynchronous = bool(_of(call, "async_op"))
            record("collective", _of(call, "name") or "collective", begin, now(), seq=_next_seq("default"), group="default", ranks=ranks,
                   flags=ASYNC | ENQUEUED if asynchronous else 0, stream=2 if asynchronous else 0)  # fmt: skip

    number = id(a) & 0x7FFFFFFF
    group.register_pre_hook(number, before)
    group.register_post_hook(number, after)
    for name in ("remove_pre_hook", "remove_post_hook"):
        remove = getattr(group, name, None)
        if remove:
            a.undo.append(lambda remove=remove: remove(number))


def _of(call, key):
    return call.get(key) if isinstance(call, dict) else getattr(call, key, None)


# -- the optimizer: one step a call --


def _attach_optimizer(a, optimizer):
    begun = []

    @_quiet
    def before(*_):
        t = now()
        if a.active:
            _backward_ends(t)
            begun.append(t)

    @_quiet
    def after(*_):
        if a.active and begun:
            record("compute", "optimizer", begun.pop(), now())
            if not _probe.explicit:
                _step()

    if hasattr(optimizer, "register_step_pre_hook") and hasattr(optimizer, "register_step_post_hook"):
        a.undo.append(optimizer.register_step_pre_hook(before).remove)
        a.undo.append(optimizer.register_step_post_hook(after).remove)
        return
    inner = optimizer.step
    own = "step" in vars(optimizer)

    def wrapped(self, *arguments, **named):
        before()
        result = inner(*arguments, **named)
        after()
        return result

    wrapped.__name__, wrapped.__doc__ = "step", inner.__doc__
    if getattr(inner, "_with_counter", False):
        wrapped._with_counter = True  # a learning-rate scheduler was here before
    # a bound method, because schedulers that come later look for __self__ and __func__
    method = types.MethodType(wrapped, optimizer)
    optimizer.step = method

    def undo():
        if vars(optimizer).get("step") is not method:
            return  # somebody wrapped it further: ours passes through
        if own:
            optimizer.step = inner
        else:
            del optimizer.step

    a.undo.append(undo)


# -- the loader: its class becomes a subclass whose iteration is timed --


def _attach_loader(a, loader):
    kind = type(loader)

    def iterate(self):
        iterator = kind.__iter__(self)
        return data(iterator) if a.active else iterator

    timed = type(kind.__name__, (kind,), {"__iter__": iterate, "__module__": kind.__module__})
    try:
        loader.__class__ = timed
    except TypeError:
        a.note("a %s cannot be timed in place: go through probe.data(loader)" % kind.__name__)
        return

    def undo():
        if type(loader) is timed:
            loader.__class__ = kind

    a.undo.append(undo)


# -- garbage collection: every pause above a tenth of a millisecond --


def _watch_gc(a):
    begun = []

    @_quiet
    def watch(phase, info):
        if phase == "start":
            begun.append(now())
        elif begun:
            begin, end = begun.pop(), now()
            if a.active and end - begin > 100000:
                record("gc", "gc", begin, end)

    gc.callbacks.append(watch)
    a.undo.append(lambda: gc.callbacks.remove(watch))
