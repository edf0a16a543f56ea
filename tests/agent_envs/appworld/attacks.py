"""Attempts to get out of the sandbox, by class; `python attacks.py` prints the table of the docs.

An attempt is Python code that runs in an interpreter. It gets through if it reaches its end without
an exception. All use the same way around Python: the real modules, which any function leads to.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

NOW = "2024-05-03T10:30:00"
NUMBERS = """
acct 163 89, add_key 248 217, adjtimex 159 171, alarm 37 -, arch_prctl 158 -, bind 49 200,
bpf 321 280, brk 12 214, capset 126 91, chdir 80 49, chmod 90 -, chown 92 -, chroot 161 51,
clock_settime 227 112, clone 56 220, clone3 435 435, connect 42 203, copy_file_range 326 285,
creat 85 -, delete_module 176 106, dup 32 23, dup3 292 24, epoll_create1 291 20, eventfd2 290 19,
execve 59 221, execveat 322 281, fanotify_init 300 262, fchdir 81 50, fchmod 91 52, fcntl 72 25,
finit_module 313 273, fork 57 -, fsconfig 431 431, fsmount 432 432, fsopen 430 430, fspick 433 433,
ftruncate 77 46, futex 202 98, getcwd 79 17, getdents64 217 61, init_module 175 105,
inotify_init1 294 26, io_setup 206 0, io_uring_enter 426 426, io_uring_register 427 427,
io_uring_setup 425 425, ioctl 16 29, ioperm 173 -, iopl 172 -, ioprio_set 251 30, kcmp 312 272,
kexec_file_load 320 294, kexec_load 246 104, keyctl 250 219, kill 62 129,
landlock_create_ruleset 444 444, link 86 -, linkat 265 37, listen 50 201, listmount 458 458,
madvise 28 233, mbind 237 235, membarrier 324 283, memfd_create 319 279, memfd_secret 447 447,
migrate_pages 256 238, mkdirat 258 34, mknodat 259 33, mlock 149 228, mlockall 151 230, mmap 9 222,
modify_ldt 154 -, mount 165 40, mount_setattr 442 442, move_mount 429 429, move_pages 279 239,
mprotect 10 226, mq_open 240 180, mq_unlink 241 181, mremap 25 216, msgctl 71 187, msgget 68 186,
msgrcv 70 188, msgsnd 69 189, name_to_handle_at 303 264, open 2 -, open_by_handle_at 304 265,
open_tree 428 428, openat 257 56, openat2 437 437, perf_event_open 298 241, personality 135 92,
pidfd_getfd 438 438, pidfd_open 434 434, pidfd_send_signal 424 424, pipe2 293 59,
pivot_root 155 41, pkey_alloc 330 289, pkey_mprotect 329 288, prctl 157 167, prlimit64 302 261,
process_madvise 440 440, process_mrelease 448 448, process_vm_readv 310 270,
process_vm_writev 311 271, ptrace 101 117, quotactl 179 60, readlinkat 267 78, reboot 169 142,
recvmsg 47 212, remap_file_pages 216 234, renameat2 316 276, request_key 249 218,
rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, sched_setaffinity 203 122,
sched_setattr 314 274, sched_setscheduler 144 119, seccomp 317 277, semctl 66 191, semget 64 190,
semop 65 193, sendfile 40 71, sendmsg 46 211, set_mempolicy 238 237, setdomainname 171 162,
setfsuid 122 151, setgid 106 144, setgroups 116 159, sethostname 170 161, setitimer 38 103,
setns 308 268, setpgid 109 154, setpriority 141 140, setresuid 117 147, setrlimit 160 164,
setsid 112 157, setsockopt 54 208, settimeofday 164 170, setuid 105 146, shmat 30 196,
shmctl 31 195, shmget 29 194, shutdown 48 210, signalfd4 289 74, socket 41 198, socketpair 53 199,
splice 275 76, statfs 137 43, statmount 457 457, statx 332 291, swapoff 168 225, swapon 167 224,
symlinkat 266 36, syslog 103 116, tee 276 77, tgkill 234 131, timer_create 222 107,
timerfd_create 283 85, tkill 200 130, truncate 76 45, umount2 166 39, uname 63 160,
unlinkat 263 35, unshare 272 97, userfaultfd 323 282, utimensat 280 88, vfork 58 -, vhangup 153 58,
vmsplice 278 75
"""
NUMBER = {
    name: None
    if given[(machine := os.uname().machine) == "aarch64"] == "-"
    else int(given[machine == "aarch64"])
    for name, *given in (entry.split() for entry in NUMBERS.replace("\n", " ").split(","))
}
# Runs attempts: what each printed as a line of JSON. It ends with the interpreter.
HARNESS = """
import re, json
modules = re.compile.__globals__["enum"].sys.modules
os, sys, ctypes, socket = (modules[name] for name in ("os", "sys", "ctypes", "socket"))
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(name, *given):
    number = NUMBER[name]
    if number is None:
        raise OSError("this machine does not have it")
    whole = [ctypes.c_long(one) if isinstance(one, int) else one for one in given]
    done = libc.syscall(ctypes.c_long(number), *whole)
    if done == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done
def framed(body, token=None):
    token = world()._token if token is None else token
    return len(body).to_bytes(4, "big") + token + body
def world():
    return next(one for one in modules["gc"].get_objects() if type(one).__name__ == "_World")
FACTS["open"] = [n for n in range(3, 16) if libc.write(n, b"", 0) == 0]
FACTS["own"] = FACTS["open"][0]
for name, code in ATTEMPTS.items():
    place = dict(modules=modules, os=os, sys=sys, ctypes=ctypes, socket=socket, libc=libc,
                 call=call, json=json, FACTS=FACTS, framed=framed, world=world, __name__="attack")
    try:
        exec(code, place)
    except BaseException as error:
        print(json.dumps([name, type(error).__name__ + ": " + str(error)[:60]]))
    else:
        print(json.dumps([name, None]))
"""


def each(form: str, listed: str) -> dict[str, str]:
    """The form for each of some words."""
    return {form.format(one): form.format(one) for one in listed.split()}


def calls(listed: str) -> dict[str, str]:
    """Attempts by system call, each with its arguments: `name(0, b"x")`; one a line."""
    lines = [line.strip() for line in listed.strip().splitlines()]
    return {line: f"call({line.partition('(')[0]!r}, {line.partition('(')[2]}" for line in lines}


FOLDER = "0xffffff9c - 2**32"  # AT_FDCWD
FILES = "/etc/passwd /etc/shadow /etc/hostname /root /home / .. /tmp /dev/null /dev/shm"
PROC = (
    "/proc/self/environ /proc/self/maps /proc/self/mem /proc/self/status /proc/self/root/etc "
    "/proc/1/environ /proc/1/cmdline /proc/self/fd/0 /proc/sys/kernel/core_pattern "
    "/proc/sysrq-trigger /proc/self/oom_score_adj /proc/self/ns/net /sys/kernel/security "
    "/sys/fs/cgroup/cgroup.procs /dev/mem /dev/kmsg"
)
OPENERS = """
modules["io"].open("/etc/passwd").read()
modules["io"].FileIO("/etc/passwd").read()
modules["io"].open_code("/etc/passwd").read()
modules["codecs"].open("/etc/passwd").read()
modules["tokenize"].open("/etc/passwd").read()
modules["_imp"].create_dynamic(type("S", (), dict(name="mmap", origin="/lib/mmap.so", loader=0)))
ctypes.CDLL("libutil.so.1")
assert modules["linecache"].getlines("/etc/passwd")
assert modules["inspect"].getsource(json)
os.scandir("/")
assert os.listdir("/")
os.stat("/etc/passwd")
os.mkdir("/made")
os.open("/made", os.O_CREAT | os.O_RDWR)
os.statvfs("/")
""".strip().splitlines()
FAMILIES = {
    "unix": 1,
    "inet": 2,
    "ax25": 3,
    "ipx": 4,
    "appletalk": 5,
    "inet6": 10,
    "netlink": 16,
    "packet": 17,
    "rds": 21,
    "can": 29,
    "tipc": 30,
    "bluetooth": 31,
    "alg": 38,
    "nfc": 39,
    "vsock": 40,
    "kcm": 41,
    "qipcrtr": 42,
    "smc": 43,
    "xdp": 44,
}
ROADS = {  # to the real modules, from what code is given
    "a function's globals": "import re\nos = re.compile.__globals__['enum'].sys.modules['os']",
    "subclasses of object": (
        "os = [c for c in object.__subclasses__() if c.__name__ == '_wrap_close'][0]"
        ".__init__.__globals__['sys'].modules['os']"
    ),
    "a frame": "os = sys._getframe(0).f_back.f_globals['modules']['os']",
    "a traceback": (
        "try:\n  1 / 0\nexcept Exception as e:\n  f = e.__traceback__.tb_frame\n"
        "while f.f_back: f = f.f_back\nos = f.f_globals['os'] if 'os' in f.f_globals else "
        "f.f_globals['sys'].modules['os']"
    ),
    "builtins": "os = print.__self__.__import__('os')",
    "a generator's frame": (
        "g = (i for i in [1])\nos = g.gi_frame.f_builtins['print'].__self__.__import__('os')"
    ),
    "the loader": "os = modules['_frozen_importlib'].BuiltinImporter.load_module('posix')",
    "format fields": (
        "import re\nfrom string import Formatter\n"
        "os = Formatter().get_field('0.__globals__[enum].sys', (re.compile,), {})[0].modules['os']"
    ),
    "the object of an error": (
        "import re\ntry:\n  '{0.__globals__[enum].zz}'.format(re.compile)\n"
        "except AttributeError as e:\n  os = e.obj.sys.modules['os']"
    ),
    "a forward reference": (
        "import typing\nos = typing.ForwardRef('o')._evaluate(dict(o=modules['os']), {}, "
        "recursive_guard=frozenset())"
    ),
    "an enum": "import re\nre.RegexFlag._convert_('X', 're', lambda n: 0)\nos = modules['os']",
    "a match pattern": (
        "import re\nmatch re.compile:\n"
        "  case object(__globals__=g): os = g['enum'].sys.modules['os']"
    ),
    "garbage": (
        "os = [m for m in modules['gc'].get_referents(modules) "
        "if getattr(m, '__name__', '') == 'os'][0]"
    ),
    "code made by hand": (
        "import types\nos = types.FunctionType(compile('modules', '', 'eval'), "
        "dict(modules=modules))()['os']"
    ),
    "memory": "os = ctypes.cast(id(modules['os']), ctypes.py_object).value",
}
ATTACKS: dict[str, dict[str, str]] = {
    "host files": each("os.open({!r}, os.O_RDONLY)", FILES)
    | dict(zip(OPENERS, OPENERS, strict=True))
    | calls(f"""
        open(b"/etc/passwd", 0)
        openat({FOLDER}, b"/etc/passwd", 0)
        openat2({FOLDER}, b"/etc/passwd", bytes(24), 24)
        creat(b"/x", 0o600)
        name_to_handle_at({FOLDER}, b"/", bytes(64), bytes(8), 0)
        open_by_handle_at(0, bytes(64), 0)
        statx({FOLDER}, b"/etc/passwd", 0, 0, bytes(256))
        statfs(b"/etc", bytes(256))
        truncate(b"/etc/passwd", 0)
        chmod(b"/etc/passwd", 0o777)
        chown(b"/", 0, 0)
        fchmod(0, 0o777)
        ftruncate(0, 0)
        mkdirat({FOLDER}, b"/x", 0o700)
        mknodat({FOLDER}, b"/x", 0o20600, 0x101)
        unlinkat({FOLDER}, b"/etc/passwd", 0)
        utimensat({FOLDER}, b"/", 0, 0)
        chdir(b"..")
        fchdir(0)
        getdents64(0, bytes(256), 256)
        getcwd(bytes(256), 256)
        inotify_init1(0)
        fanotify_init(0, 0)
    """),
    "/proc, /sys and /dev": each("os.open({!r}, os.O_RDONLY)", PROC)
    | each("os.open({!r}, os.O_WRONLY)", "/proc/self/oom_score_adj /proc/sysrq-trigger /dev/kmsg"),
    "environment": {
        "variables of the trainer": "assert set(os.environ) - {'PYTHONHASHSEED', 'TZ', 'LC_ALL'}",
        "the host's name": "os.uname()",
        "the user": "assert os.getuid() != 65534 and os.getuid() == FACTS['uid'] != 0",
        "root": "assert os.geteuid() == 0",
        "arguments": "assert any(sys.argv) or any(sys.orig_argv)",
        "the trainer's process": "assert os.getppid()",
        "home": "os.listdir(os.path.expanduser('~'))",
        "uname": "call('uname', bytes(512))",
        "paths of modules": "assert any(getattr(m, '__file__', 0) for m in modules.values())",
    },
    "descriptors": {
        f"read {n}": f"assert {n} != FACTS['own']\nassert os.read({n}, 9)" for n in (0, 1, 2)
    }
    | {"another socket or file": "assert len(FACTS['open']) > 1"}
    | calls("""
        dup(0)
        dup3(0, 9, 0)
        fcntl(0, 0, 10)
        fcntl(0, 8, 1)
        pipe2(bytes(8), 0)
        eventfd2(0, 0)
        signalfd4(-1, bytes(8), 8, 0)
        timerfd_create(0, 0)
        epoll_create1(0)
        pidfd_getfd(0, 0, 0)
        ioctl(0, 0x5412, b"x")
        ioctl(2, 0x5401, bytes(64))
        sendfile(1, 0, 0, 8)
        splice(0, 0, 1, 0, 8, 0)
        tee(0, 1, 8, 0)
        vmsplice(1, 0, 0, 0)
        copy_file_range(0, 0, 1, 0, 8, 0)
        sendmsg(FACTS['own'], bytes(56), 0)
        recvmsg(FACTS['own'], bytes(56), 0x40)
    """),
    "links": calls(f"""
        symlinkat(b"/etc/passwd", {FOLDER}, b"/x")
        link(b"/etc/passwd", b"/x")
        linkat({FOLDER}, b"/etc/passwd", {FOLDER}, b"/x", 0)
        readlinkat({FOLDER}, b"/proc/self/exe", bytes(99), 99)
        renameat2({FOLDER}, b"/etc", {FOLDER}, b"/x", 0)
    """)
    | {"os.symlink": "os.symlink('/', '/x')", "os.link": "os.link('/etc/passwd', '/x')"},
    "mounts": calls(f"""
        mount(b"proc", b"/", b"proc", 0, 0)
        mount(b"none", b"/", b"tmpfs", 0, 0)
        mount(b"/", b"/", 0, 4096, 0)
        mount(b"none", b"/", 0, 1 << 18, 0)
        umount2(b"/", 2)
        pivot_root(b".", b".")
        chroot(b"/")
        fsopen(b"tmpfs", 0)
        fsconfig(0, 6, 0, 0, 0)
        fsmount(0, 0, 0)
        fspick({FOLDER}, b"/", 0)
        open_tree({FOLDER}, b"/", 1)
        move_mount(0, b"", {FOLDER}, b"/", 4)
        mount_setattr({FOLDER}, b"/", 0, bytes(32), 32)
        statmount(bytes(32), bytes(512), 512, 0)
        listmount(bytes(32), bytes(512), 8, 0)
    """),
    "namespaces": {
        f"unshare({name})": f"call('unshare', {flag})"
        for name, flag in {
            "user": 0x10000000,
            "mount": 0x20000,
            "pid": 0x20000000,
            "net": 0x40000000,
            "ipc": 0x8000000,
            "uts": 0x4000000,
            "cgroup": 0x2000000,
            "time": 0x80,
            "files": 0x400,
        }.items()
    }
    | calls("""
        setns(0, 0)
        clone(0x10000000 | 17, 0, 0, 0, 0)
        clone3(bytes(88), 88)
        sethostname(b"x", 1)
        setdomainname(b"x", 1)
    """),
    "other processes": calls("""
        ptrace(0, 0, 0, 0)
        ptrace(16, 1, 0, 0)
        ptrace(0x4206, 1, 0, 0)
        process_vm_readv(1, bytes(16), 0, bytes(16), 0, 0)
        process_vm_writev(1, bytes(16), 0, bytes(16), 0, 0)
        kcmp(1, 1, 2, 0, 0)
        pidfd_open(1, 0)
        process_madvise(0, bytes(16), 1, 4, 0)
        process_mrelease(0, 0)
        prlimit64(0, 9, 0, bytes(16))
        sched_setscheduler(0, 0, bytes(4))
        sched_setattr(0, bytes(56), 0)
        sched_setaffinity(0, 8, b"\\xff" * 8)
        setpriority(0, 0, 19)
        ioprio_set(1, 0, 0)
        migrate_pages(0, 0, 0, 0)
        move_pages(0, 0, 0, 0, 0, 0)
    """),
    "sockets": {
        f"{name} {kind}": f"call('socket', {family}, {number}, 0)"
        for name, family in FAMILIES.items()
        for kind, number in {"stream": 1, "datagram": 2, "raw": 3}.items()
        if kind != "raw" or name in ("inet", "inet6", "packet", "netlink", "can", "bluetooth")
    }
    | {f"netlink {protocol}": f"call('socket', 16, 3, {protocol})" for protocol in (2, 9, 12, 16)}
    | {
        "connect home": "socket.socket().connect((b'127.0.0.1', 80))",
        "connect abroad": "socket.socket(2, 2).connect((b'1.1.1.1', 53))",
        "look up": "socket.getaddrinfo(b'example.com', 80)",
        "a pair": "socket.socketpair()",
    }
    | calls("""
        bind(FACTS['own'], b"\\1\\0\\0x", 4)
        connect(FACTS['own'], b"\\1\\0\\0x", 4)
        listen(FACTS['own'], 1)
        setsockopt(FACTS['own'], 1, 7, bytes(4), 4)
        shutdown(FACTS['own'], 3)
    """),
    "SysV IPC": calls("""
        shmget(0, 4096, 0o1600)
        shmget(0, 1 << 28, 0o1600)
        shmget(0x1234, 4096, 0o1666)
        shmat(0, 0, 0)
        shmctl(0, 14, bytes(256))
        semget(0, 1, 0o1600)
        semop(0, bytes(6), 1)
        semctl(0, 0, 3, bytes(256))
        msgget(0, 0o1600)
        msgsnd(0, bytes(16), 8, 0o4000)
        msgrcv(0, bytes(16), 8, 0, 0o4000)
        msgctl(0, 3, bytes(256))
    """)
    | {
        "libc.shmget": "assert libc.shmget(0, 4096, 0o1600) != -1",
        "libc.msgget": "assert libc.msgget(0, 0o1600) != -1",
        "libc.semget": "assert libc.semget(0, 1, 0o1600) != -1",
    },
    "POSIX IPC and shared memory": calls("""
        mq_open(b"x", 0o102, 0o600, 0)
        mq_unlink(b"x")
        memfd_create(b"x", 0)
        memfd_create(b"x", 4)
        memfd_secret(0)
        mmap(0, 4096, 3, 0x21, -1, 0)
        mmap(0, 4096, 3, 0x23, -1, 0)
        mmap(0, 4096, 1, 2, 0, 0)
    """)
    | {
        "shm_open": "assert libc.shm_open(b'/x', 0o102, 0o600) != -1",
        "sem_open": "assert libc.sem_open(b'/x', 0o100, 0o600, 1) not in (0, -1)",
    },
    "keyrings": calls("""
        add_key(b"user", b"x", b"y", 1, -3)
        add_key(b"user", b"x", b"y", 1, -4)
        add_key(b"keyring", b"x", 0, 0, -2)
        request_key(b"user", b"x", 0, -3)
        keyctl(0, -4, 1)
        keyctl(1, 0)
        keyctl(1, b"shared")
        keyctl(11, -4, bytes(64), 64)
        keyctl(22, -1, -3)
    """),
    "kernel interfaces": calls("""
        io_uring_setup(1, bytes(120))
        io_uring_enter(0, 0, 0, 0, 0, 0)
        io_uring_register(0, 0, 0, 0)
        io_setup(1, bytes(8))
        userfaultfd(0)
        userfaultfd(1)
        bpf(0, bytes(64), 64)
        bpf(5, bytes(64), 64)
        perf_event_open(bytes(112), 0, -1, -1, 0)
        init_module(bytes(8), 8, b"")
        finit_module(0, b"", 0)
        delete_module(b"x", 0)
        kexec_load(0, 0, 0, 0)
        kexec_file_load(0, 0, 0, b"", 0)
        iopl(3)
        ioperm(0, 8, 1)
        modify_ldt(0, bytes(16), 16)
        arch_prctl(0x1003, bytes(8))
        personality(0x400000)
        personality(0xffffffff)
        reboot(0, 0, 0, 0)
        syslog(3, bytes(64), 64)
        settimeofday(bytes(16), 0)
        clock_settime(0, bytes(16))
        adjtimex(bytes(208))
        swapon(b"/x", 0)
        swapoff(b"/x")
        quotactl(0, 0, 0, 0)
        acct(0)
        vhangup()
        seccomp(0, 0, 0)
        landlock_create_ruleset(0, 0, 1)
        membarrier(0, 0, 0)
        mbind(0, 0, 0, 0, 0, 0)
        set_mempolicy(0, 0, 0)
        pkey_alloc(0, 0)
        futex(bytes(8), 3, 0, 0, 0, 0)
        futex(bytes(8), 6 | 128, 0, 0, 0, 0)
    """),
    "fork, threads and exec": calls("""
        fork()
        vfork()
        clone(17, 0, 0, 0, 0)
        clone(0x3d0f00, 0, 0, 0, 0)
        clone(0x11 | 0x100, 0, 0, 0, 0)
        execve(b"/bin/sh", 0, 0)
        execveat(0, b"", 0, 0, 0x1000)
    """)
    | {
        "os.fork": "os.fork()",
        "os.forkpty": "os.forkpty()",
        "os.posix_spawn": "os.posix_spawn('/bin/true', ['true'], {})",
        "os.system": "assert os.system('true') == 0",
        "os.execv": "os.execv('/bin/true', ['true'])",
        "os.spawnv": "assert os.spawnv(os.P_WAIT, '/bin/true', ['true']) == 0",
        "a thread": "modules['_thread'].start_new_thread(print, ())",
        "pthread_create": ("assert libc.pthread_create(bytes(8), 0, libc.getpid, 0) == 0"),
        "daemon": "assert libc.daemon(0, 0) == 0",
    },
    "signals": calls("""
        kill(-1, 0)
        kill(0, 0)
        kill(1, 0)
        kill(2, 0)
        tkill(1, 0)
        tgkill(1, 1, 0)
        rt_sigqueueinfo(1, 0, bytes(128))
        rt_tgsigqueueinfo(1, 1, 0, bytes(128))
        pidfd_send_signal(0, 0, 0, 0)
        timer_create(0, 0, bytes(8))
        setitimer(0, bytes(32), 0)
        alarm(1000)
        setpgid(0, 0)
        setsid()
    """)
    | {
        "the trainer": "os.kill(FACTS['pid'], 0)",
        "the trainer's group": "os.killpg(os.getpgid(FACTS['pid']), 0)",
    },
    "privileges": calls("""
        setuid(0)
        setgid(0)
        setresuid(0, 0, 0)
        setfsuid(0)
        setgroups(0, 0)
        capset(b"\\x22\\x05\\x08\\x20" + bytes(4), b"\\xff" * 24)
        prctl(4, 1, 0, 0, 0)
        prctl(8, 1, 0, 0, 0)
        prctl(24, 0, 0, 0, 0)
        prctl(28, 0, 0, 0, 0)
        prctl(1, 9, 0, 0, 0)
        prctl(22, 1, 0, 0, 0)
        prctl(35, 8, 0, 0, 0)
        prctl(36, 1, 0, 0, 0)
    """)
    | {"os.setuid": "os.setuid(0)", "os.setgid": "os.setgid(0)"},
    "limits": {
        f"more {name}": f"r = modules['resource']\nr.setrlimit(r.RLIMIT_{name}, (2**40, 2**40))"
        for name in ("AS", "CPU", "FSIZE", "NOFILE", "NPROC", "CORE", "STACK", "MEMLOCK")
    }
    | calls("""
        setrlimit(9, b"\\xff" * 16)
        prlimit64(0, 9, b"\\xff" * 16, 0)
        mlock(bytes(8), 8)
        mlockall(3)
    """),
    "memory": {
        "bytes": "x = bytes(10**9)",
        "a list": "x = [0] * 10**9",
        "a text": "x = 'a' * 10**10",
        "many texts": "x = []\nwhile True: x.append('a' * 10**6 + str(len(x)))",
        "many pages": "x = [call('mmap', 0, 2**20, 3, 0x22, -1, 0) for _ in range(300)]",
    }
    | calls("""
        mmap(0, 1 << 28, 3, 0x22, -1, 0)
        mmap(0, 1 << 28, 3, 0x4022, -1, 0)
        mmap(0, 1 << 28, 0, 0x22, -1, 0)
        mmap(0, 1 << 21, 3, 0x40022, -1, 0)
        remap_file_pages(0, 0, 0, 0, 0)
    """),
    "machine code": calls("""
        mmap(0, 4096, 7, 0x22, -1, 0)
        mmap(0, 4096, 5, 0x22, -1, 0)
        mmap(0, 4096, 5, 2, 0, 0)
        mprotect(call("mmap", 0, 4096, 3, 0x22, -1, 0), 4096, 5)
        mprotect(call("mmap", 0, 4096, 3, 0x22, -1, 0), 4096, 7)
        pkey_mprotect(call("mmap", 0, 4096, 3, 0x22, -1, 0), 4096, 5, -1)
    """)
    | {"a callback": "x = ctypes.CFUNCTYPE(None)(lambda: None)\nx()\nos.listdir('/')"},
    "roads through Python": {
        f"{name}, {what}": f"{road}\n{do}"
        for name, road in ROADS.items()
        for what, do in {
            "list": "assert os.listdir('/')",
            "run": "assert os.system('true') == 0",
        }.items()
    },
}
# Each ends the interpreter, at the latest when it goes on: the agent's fault, not the machine's.
DEADLY = {
    "exit": "os._exit(0)",
    "abort": "os.abort()",
    "bad memory": "ctypes.string_at(1)",
    "a wild jump": "ctypes.CFUNCTYPE(None)(1)()",
    "a wild write": "ctypes.memset(1, 0, 1)",
    "over the end": "ctypes.memset(id(os), 1, 2**30)",
    "close all": "os.closerange(0, 16)",
    "hang up": "os.close(FACTS['own'])",
}
SEND = "data = {}\nfor n in range(3, 16):\n  try: os.write(n, data)\n  except OSError: pass\n"
WIRE = {
    "noise": "b'x' * 64",
    "a length and no more": "b'\\xff' * 4",
    "the longest": "framed(b'[' * 4_000_000)",
    "too long": "(4_000_001).to_bytes(4, 'big') + framed(b'')[4:]",
    "empty": "framed(b'')",
    "an empty list": "framed(b'[]')",
    "null": "framed(b'null')",
    "a number": "framed(b'5')",
    "a text": "framed(b'\"output\"')",
    "an output alone": "framed(b'{\"output\": 1}')",
    "no text": "framed(b'\\xff\\xff')",
    "half a letter": "framed(b'\"\\ud800\"')",
    "a large number": "framed(b'9' * 9000)",
    "not a number": "framed(b'{\"call\": [NaN]}')",
    "a call of nothing": "framed(b'{\"call\": []}')",
    "a call of numbers": "framed(b'{\"call\": [1,2,3]}')",
    "a call of lists": "framed(b'{\"call\": [[],{},[[]]]}')",
    "a call of an inner name": ('framed(b\'{"call": ["notes", "__init__", {"self": 1}]}\')'),
    "many calls": '999 * framed(b\'{"call": ["a", "b", {}]}\')',
    "two answers": '2 * framed(b\'{"output": "", "variables": ""}\')',
}
# Messages that are not due: no later turn may get them, and no call of theirs reaches the world.
TALK = """
def put(*parts):
    for part in parts:
        os.write(FACTS["own"], part)
result = b'{"output": "forged", "variables": "forged"}'
call = b'{"call": ["forged", "forged", {}]}'
talk, token = world(), world()._token
"""
AHEAD = {
    "a result, and another": "put(framed(result), framed(result))",
    "two results in one packet": "put(2 * framed(result))",
    "500 results in one packet": "put(500 * framed(result))",
    "a result without a token": "put(framed(result) + framed(result, bytes(16)))",
    "a result with the next number": (
        "later = (int.from_bytes(token, 'big') + 1) % 2**128\n"
        "put(framed(result) + framed(result, later.to_bytes(16, 'big')))"
    ),
    "guessed tokens": (
        "put(framed(result) + b''.join(framed(result, bytes([n]) * 16) for n in range(256)))"
    ),
    "random tokens": (
        "put(framed(result) + b''.join(framed(result, os.urandom(16)) for n in range(256)))"
    ),
    "half a result more": "put(framed(result) + framed(result)[:40])",
    "one byte more": "put(framed(result) + b'x')",
    "a header more": "put(framed(result) + framed(result)[:20])",
    "a header, and the rest in the next turn": "put(framed(result), framed(result)[:20])",
    "a result byte by byte": "for one in framed(result): put(bytes([one]))",
    "a result before the code's own": "put(framed(result))",
    "a call after a result": "put(framed(result) + framed(call))",
    "a call that waits for no reply": "put(framed(call))",
    "two calls in one packet": "put(2 * framed(call))",
    "a call of an earlier message": (
        "talk.ask({'call': ['a', 'b', {}]})\nput(framed(call, token))"
    ),
    "a result of an earlier message": (
        "talk.ask({'call': ['a', 'b', {}]})\nput(framed(result, token))"
    ),
    "a result to an earlier message": (
        'put(framed(b\'{"call": ["a", "b", {}]}\') + framed(result))'
    ),
    "a result that is a call": (
        'put(framed(b\'{"output": "", "variables": 1, "call": ["forged", "", {}]}\'))'
    ),
    "meddling, without waiting": "put(framed(b'{\"meddles\": true}'))",
    "a second start": "put(framed(b'{\"ready\": true}'))",
    "limits that the machine refused": 'put(framed(b\'{"refused": "no"}\'))',
    "a result and the end": "put(framed(result))\nos._exit(0)",
    "a result and a crash": "put(framed(result))\nctypes.string_at(1)",
    "a result and no connection": "put(framed(result))\nos.close(FACTS['own'])",
    "no connection, and going on": "os.close(FACTS['own'])\nwhile True: pass",
}
# What code does after it sent its result: nothing, until the next turn.
ON = {
    "a loop": "while True: pass",
    "one number": "x = 10 ** 10 ** 8",
    "without signals": (
        "s = modules['signal']\nfor n in range(1, 65):\n  try: s.signal(n, s.SIG_IGN)\n"
        "  except (OSError, ValueError): pass\nwhile True: pass"
    ),
    "with blocked signals": (
        "s = modules['signal']\ns.pthread_sigmask(s.SIG_BLOCK, range(1, 65))\nwhile True: pass"
    ),
    "a handler of SIGCONT": (
        "s = modules['signal']\ns.signal(s.SIGCONT, lambda *told: put(framed(result)))\n"
        "while True: pass"
    ),
    "SIGCONT for itself": ("while True:\n  try: os.kill(os.getpid(), 18)\n  except OSError: pass"),
    "more results": "while True: put(framed(result))",
    "more memory": "x = []\nwhile len(x) < 10**6: x.append([x])\nwhile True: x[0] = [x]",
    "waiting for the next turn": "talk.hear()\nwhile True: pass",
    "waiting for a lock": "lock = modules['_thread'].allocate_lock()\nwhile lock.acquire(): pass",
    "a pattern": "import re\nre.match('(a*)*b', 'a' * 50)",
}
# Ways to the interpreter's own objects, by which code answers for it. Its keys are not believed.
FORGE = """
talk = next(one for one in modules["gc"].get_objects() if type(one).__name__ == "_World")
while True:
    talk.say({"output": "forged", "variables": "forged"})
    talk.hear()
"""
KEYS = {
    "a function's globals": "modules = re.search.__globals__['enum'].sys.modules",
    "subclasses of object": (
        "kinds = {kind.__name__: kind for kind in object.__subclasses__()}\n"
        "modules = kinds['_wrap_close'].__init__.__globals__['sys'].modules"
    ),
    "builtins": "modules = print.__self__.__import__('sys').modules",
    "a generator's frame": (
        "frame = (one for one in [1]).gi_frame\n"
        "modules = frame.f_builtins['print'].__self__.__import__('sys').modules"
    ),
    "a traceback's frame": (
        "try: 1 / 0\nexcept ZeroDivisionError as error: frame = error.__traceback__.tb_frame\n"
        "modules = frame.f_back.f_globals['sys'].modules"
    ),
    "format fields": (
        "found, _ = string.Formatter().get_field('0.__globals__[enum].sys', (re.search,), {})\n"
        "modules = found.modules"
    ),
    "the object of an error": (
        "try: '{0.__globals__[enum].zz}'.format(re.search)\n"
        "except AttributeError as error: modules = error.obj.sys.modules"
    ),
    "the object of an error, by a pattern": (
        "try: '{0.__globals__[enum].zz}'.format(re.search)\n"
        "except AttributeError as error:\n"
        "  match error:\n    case AttributeError(obj=found): modules = found.sys.modules"
    ),
    "a name made by code": "modules = getattr(re.search, '__glo' + 'bals__')['enum'].sys.modules",
    "a mapped getattr": (
        "modules = [*map(getattr, [re.search], ['__glo' + 'bals__'])][0]['enum'].sys.modules"
    ),
    "a reduced getattr": (
        "modules = functools.reduce(getattr, ['__glo' + 'bals__'], re.search)['enum'].sys.modules"
    ),
    "attrgetter": "modules = operator.attrgetter('__globals__')(re.search)['enum'].sys.modules",
    "methodcaller": (
        "found = operator.methodcaller('__getattribute__', '__globals__')(re.search)\n"
        "modules = found['enum'].sys.modules"
    ),
    "eval": "modules = eval('re.search.__glo' + 'bals__')['enum'].sys.modules",
    "exec": "exec('modules = re.search.__glo' + 'bals__[\"enum\"].sys.modules')",
    "type hints": (
        "found = []\nclass A:\n  x: 'found.append(re.search.__glob' 'als__)'\n"
        "typing.get_type_hints(A)\nmodules = found[0]['enum'].sys.modules"
    ),
    "a forward reference": (
        "found = []\nhint = typing.ForwardRef('found.append(re.search.__glob' 'als__)')\n"
        "hint._evaluate(globals(), {}, recursive_guard=frozenset())\n"
        "modules = found[0]['enum'].sys.modules"
    ),
    "a match pattern": (
        "match re.search:\n  case object(__globals__=found): modules = found['enum'].sys.modules"
    ),
    "a pattern's own names": (
        "kind = type('M', (type,), {'__instance' + 'check__': lambda *given: True})\n"
        "kind = kind('A', (), {'__match' + '_args__': ('__glo' + 'bals__',)})\n"
        "match re.search:\n  case kind(found): modules = found['enum'].sys.modules"
    ),
    "an import of a deep module": (
        "import inspect\nmodules = inspect.unwrap.__globals__['sys'].modules"
    ),
}
LOOPS = {
    "for ever": "while True: pass",
    "through everything": "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
    "one number": "x = 10 ** 10 ** 8",
    "one pattern": "import re\nre.match('(a*)*b', 'a' * 50)",
    "one sum": "sum(range(10**12))",
    "without signals": (
        "import re\ns = re.compile.__globals__['enum'].sys.modules['signal']\n"
        "for n in range(1, 60):\n"
        "  try: s.signal(n, s.SIG_IGN)\n  except (OSError, ValueError): pass\n"
        "while True: pass"
    ),
    "calls": "while True:\n  try: apis.a.b()\n  except BaseException: pass",
}
# What one episode leaves, and how the next looks for it.
LEAKS = {
    "shared memory": ("call('shmget', 7777, 64, 0o1666)", "call('shmget', 7777, 64, 0o666)"),
    "a message queue": ("call('msgget', 7777, 0o1666)", "call('msgget', 7777, 0o666)"),
    "a semaphore": ("call('semget', 7777, 1, 0o1666)", "call('semget', 7777, 1, 0o666)"),
    "a key": (
        "call('add_key', b'user', b'left', b'y', 1, -4)",
        "call('request_key', b'user', b'left', 0, -4)",
    ),
    "a session key": (
        "call('add_key', b'user', b'left', b'y', 1, -3)",
        "call('request_key', b'user', b'left', 0, -3)",
    ),
    "a POSIX queue": ("call('mq_open', b'left', 0o102, 0o666, 0)", "call('mq_open', b'left', 0)"),
    "a file": ("os.open('/left', os.O_CREAT | os.O_RDWR)", "os.stat('/left')"),
    "a file in memory": ("libc.shm_open(b'/left', 0o102, 0o666)", "os.stat('/dev/shm/left')"),
    "a scratch file": ("open('left', 'w').write('x')", "open('left')"),
    "a socket's name": (
        "s = socket.socket(socket.AF_UNIX)\ns.bind('\\0left')\ns.listen()",
        "socket.socket(socket.AF_UNIX).connect('\\0left')",
    ),
    "a patched module": ("json.dumps = 1", "assert json.dumps == 1"),
    "a patched builtin": ("modules['builtins'].len = 1", "assert modules['builtins'].len == 1"),
    "an environment variable": ("os.environ['left'] = '1'", "assert 'left' in os.environ"),
    "a random state": (
        "modules['random'].seed(7)",
        "import random\nr = random.getstate()\nrandom.seed(7)\nassert r == random.getstate()",
    ),
    "a recursion limit": ("sys.setrecursionlimit(7777)", "assert sys.getrecursionlimit() == 7777"),
    "memory": (
        "x = [b'left ' + b'behind'] * 9",
        (
            "assert any(type(o) is list and o[:1] == [b'left ' + b'behind'] "
            "for o in modules['gc'].get_objects())"
        ),
    ),
    "the host's name": ("call('sethostname', b'left', 4)", "assert os.uname().nodename == 'left'"),
    "a process": ("os.fork()", "os.kill(2, 0)"),
}


def harness(attempts: dict[str, str]) -> str:
    """Code that makes attempts."""
    facts = {"pid": os.getpid(), "uid": os.getuid()}
    given = f"NUMBER = {NUMBER!r}\nATTEMPTS = {attempts!r}\nFACTS = {facts!r}\n"
    return given + HARNESS


def made(attempts: dict[str, str]) -> dict[str, str | None]:
    """Make attempts in one interpreter: why each was held, None if it got through."""
    from agent_envs.appworld.interpreter import Interpreter

    interpreter = Interpreter(NOW, "", timeout=60)
    output = interpreter.execute(harness(attempts), lambda *call: {"value": None})
    interpreter.close()
    told = [line for line in output.splitlines() if line.startswith('["')]
    return dict(json.loads(line) for line in told)


def leaked(name: str) -> bool:
    """Whether a later episode finds what an earlier one left, which still runs."""
    from agent_envs.appworld.interpreter import Interpreter

    leave, look = LEAKS[name]
    first, second = (Interpreter(NOW, "", timeout=60) for _ in range(2))
    first.execute(harness({name: leave}), None)
    output = second.execute(harness({name: look}), None)
    first.close()
    second.close()
    return json.loads(output.splitlines()[-1])[1] is None


def costs_its_turn(code: str, *, fails: bool = True, timeout: float = 20) -> bool:
    """Whether code fails nothing but its own turn or episode.

    `fails`: the turn must fail, and what was before it must remain.
    """
    from agent_envs.appworld.interpreter import Interpreter

    interpreter, other = (Interpreter(NOW, "", timeout=timeout) for _ in range(2))
    other.execute("x = 2", None)
    process = other._process.number  # type: ignore[union-attr]
    interpreter.execute("x = 1", None)
    output = interpreter.execute(code, lambda *call: {"value": None})
    held = not fails or output.startswith("Execution failed. Traceback:\nException: ")
    for _ in range(3):  # also when it has to be rebuilt
        later = interpreter.execute("print(x)", lambda *call: {"value": None})
        held &= later == "1" or not fails
        interpreter.close()
    held &= other.execute("print(x)", None) == "2"
    held &= other._process.number == process  # type: ignore[union-attr]
    other.close()
    return held


def believed(code: str) -> bool:
    """Whether a later turn gets what code sent before it, or the world a call that code forged."""
    from agent_envs.appworld.interpreter import Interpreter

    calls, interpreter = [], Interpreter(NOW, "", timeout=20)

    def answer(*call: object) -> dict[str, object]:
        calls.append(call[0])
        return {"value": None}

    interpreter.execute("x = 1", answer)
    interpreter.execute(harness({"": TALK + code}), answer)
    before = len(calls)
    later = [interpreter.execute("print(x)", answer) for _ in range(3)]
    ended = "Execution failed. Traceback:\nException: The interpreter ended"
    interpreter.close()
    right = all(one == "1" or one.startswith(ended) for one in later)
    return not right or len(calls) > before or calls.count("forged") > 1


def runs_on(code: str) -> bool:
    """Whether code still runs when its turn is over."""
    from agent_envs.appworld.interpreter import Interpreter
    from agent_envs.appworld.sandbox import start_warden

    interpreter = Interpreter(NOW, "", timeout=20)
    interpreter.execute("x = 1", None)
    own = below(start_warden().pid)[-1]
    output = interpreter.execute(harness({"": f"{TALK}put(framed(result))\n{code}"}), None)
    there = own in below(start_warden().pid)
    state = Path(f"/proc/{own}/stat").read_text().rpartition(") ")[2][0] if there else "ended"
    interpreter.close()
    return state not in ("T", "ended") or not ("forged" in output or "ended" in output)


def below(pid: int) -> list[int]:
    """The processes below one."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [number for child in map(int, listed) for number in (child, *below(child))]


def forges_its_key(road: str) -> bool:
    """Whether code on a road gets its own key of the variables believed."""
    from agent_envs.appworld.interpreter import Interpreter

    interpreter, keys = Interpreter(NOW, "", timeout=20), []
    imports = "import functools, operator, re, string, typing"
    for code in (imports, f"{road}\n{FORGE}", "x = 2"):
        interpreter.execute(code, None)
        keys.append(interpreter.key)
    interpreter.close()
    return "forged" in keys


def table() -> str:
    """Classes with the number of attempts and of those that were held, in Markdown."""
    held = {}
    for name, attempts in ATTACKS.items():
        results = made(attempts)
        held[name] = [results.get(one) is not None for one in attempts]
    held["ends of the interpreter"] = [
        costs_its_turn(harness({"": code})) for code in DEADLY.values()
    ]
    held["nonsense on the wire"] = [
        costs_its_turn(harness({"": SEND.format(data)}), fails=False) for data in WIRE.values()
    ]
    held["answers sent ahead"] = [not believed(code) for code in AHEAD.values()]
    held["code that runs on"] = [not runs_on(code) for code in ON.values()]
    held["forged keys"] = [not forges_its_key(road) for road in KEYS.values()]
    held["loops"] = [costs_its_turn(code, timeout=1) for code in LOOPS.values()]
    held["leaks between episodes"] = [not leaked(name) for name in LEAKS]
    held["all"] = [one for ones in held.values() for one in ones]
    rows = [f"| {name} | {len(ones)} | {sum(ones)} |" for name, ones in held.items()]
    return "\n".join(["| class | attempts | held |", "|---|---|---|", *rows])


if __name__ == "__main__":
    sys.stdout.write(f"user {os.getuid()}\n{table()}\n")
