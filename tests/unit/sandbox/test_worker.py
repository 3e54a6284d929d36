"""The worker as the judge holds it, at the best level of whoever runs these tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import warm

import kbverified
from kbverified.sandbox import (
    ChannelClosed,
    Limits,
    SandboxError,
    SpawnRequest,
    forked,
    reachable_level,
    reclaim,
    spawn,
)

SOURCES = str(Path(kbverified.__file__).parents[1])  # a worker knows only what its environment says
BOOT = "from kbverified.sandbox import Channel; channel = Channel.from_environment(); "


@pytest.fixture(params=["executed", "forked"], scope="module", autouse=True)
def origin(request):
    """Where launchers and workers come from."""
    if request.param == "executed":
        yield request.param
        return
    process = warm.start()
    yield request.param
    forked.use(None)
    assert process.wait(20) == 0


def start(code: str, level: str = "auto", **settings):
    settings = {"env": {"PYTHONPATH": SOURCES}, "forkable": True, **settings}
    return spawn(SpawnRequest([sys.executable, "-c", code], level, **settings))  # type: ignore[arg-type]


@pytest.fixture(params=["auto", "none"])
def level(request) -> str:
    return request.param


def test_conversation_and_a_clean_end(level) -> None:
    code = BOOT + "message, _ = channel.receive(20); channel.send({'twice': 2 * message['n']}); print('bye')"
    with start(code, level) as worker:
        assert worker.poll() is None
        worker.channel.send({"n": 21})
        assert worker.channel.receive(20) == ({"twice": 42}, [])
        status = worker.wait(20)
        assert status is not None and status.ok and (status.code, status.signal) == (0, None)
        assert worker.output_tail() == "bye\n" and worker.output_bytes == 4 and not worker.flooded
        with pytest.raises(ChannelClosed):
            worker.channel.receive(1)
        assert worker.poll() == status == worker.kill()


def test_auto_is_the_reachable_level() -> None:
    with start("") as worker:
        assert worker.level == reachable_level()


def test_descriptors_reach_the_worker_and_not_back(level) -> None:
    """The judge's buffer is written by the worker; a descriptor that a worker sends is dropped."""
    buffer = os.memfd_create("buffer")
    code = BOOT + (
        "import os; _, fds = channel.receive(20); os.write(fds[0], b'output'); channel.send({'done': 1}, fds=[0, 1])"
    )
    with start(code, level) as worker:
        worker.channel.send({}, fds=[buffer])
        assert worker.channel.receive(20) == ({"done": 1}, [])
        assert os.pread(buffer, 10, 0) == b"output"
    os.close(buffer)


def test_exit_code_and_signal(level) -> None:
    with start("import os; os._exit(7)", level) as worker:
        status = worker.wait(20)
        assert status is not None and (status.code, status.signal) == (7, None)
    with start("import os; os.abort()", level) as worker:
        status = worker.wait(20)
        assert status is not None and (status.code, status.signal) == (None, signal.SIGABRT)


def test_wait_has_a_limit_and_kill_is_final(level) -> None:
    with start("import time; time.sleep(60)", level) as worker:
        started = time.monotonic()
        assert worker.wait(0.2) is None
        assert 0.2 <= time.monotonic() - started < 1
        assert worker.kill().signal == signal.SIGKILL
        assert worker.kill().signal == signal.SIGKILL
        assert not os.path.exists(f"/proc/{worker.pid}")


def test_kill_by_another_thread_ends_a_wait(level) -> None:
    with start("import time; time.sleep(60)", level) as worker:
        threading.Timer(0.2, worker.kill).start()
        status = worker.wait(20)
        assert status is not None and status.signal == signal.SIGKILL


def test_leaving_the_context_kills(level) -> None:
    with start("import time; time.sleep(60)", level) as worker:
        pid = worker.pid
    assert not os.path.exists(f"/proc/{pid}")


def test_the_worker_cannot_stop_its_end(level) -> None:
    """A worker that stops itself and ignores what can be ignored is still dead at once."""
    code = "import os, signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); os.kill(os.getpid(), 19)"
    with start(code, level) as worker:
        deadline = time.monotonic() + 10
        while "up" not in worker.output_tail() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert worker.kill().signal == signal.SIGKILL


@pytest.mark.parametrize("pid_namespace", [True, False])
def test_the_launchers_death_is_the_workers(level, pid_namespace) -> None:
    with start("import time; time.sleep(60)", level, pid_namespace=pid_namespace) as worker:
        launcher = int(Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(launcher, signal.SIGKILL)
        status = worker.wait(10)
        assert status is not None and status.signal == signal.SIGKILL
        deadline = time.monotonic() + 5  # it is nobody's child that we could wait for
        while not dead(worker.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert dead(worker.pid)


def dead(pid: int) -> bool:
    """Gone, or a zombie: a container's first process may not care for orphans."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_usage_is_counted(level) -> None:
    code = "import time\nx = bytearray(50 << 20)\nwhile time.process_time() < 0.3: pass"
    with start(code, level) as worker:
        status = worker.wait(20)
        assert status is not None and status.cpu_s is not None and status.max_rss_bytes is not None
        assert 0.3 <= status.cpu_s < 3
        assert status.max_rss_bytes > 50 << 20


def test_writable_folder_and_reclaim(level, tmp_path) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "before").write_text("x")
    code = (
        "import os, sys; os.chdir(sys.argv[1]); open('before', 'a').write('y'); os.mkdir('deep', 0o700); "
        "open('deep/tool', 'w').write('z'); os.chmod('deep/tool', 0o4700); os.symlink('/etc/passwd', 'link'); "
        "os.mkfifo('pipe'); os.chmod('before', 0)"
    )
    argv = [sys.executable, "-c", code, str(folder)]
    with spawn(SpawnRequest(argv, level, writable=(folder,), forkable=True)) as worker:  # type: ignore[arg-type]
        status = worker.wait(20)
        assert status is not None and status.ok, worker.output_tail()
    assert reclaim(folder) == [str(folder / "pipe")]
    assert (folder / "before").read_text() == "xy" and (folder / "before").stat().st_mode & 0o7777 == 0o644
    assert (folder / "deep/tool").stat().st_mode & 0o7777 == 0o755
    assert {p.lstat().st_uid for p in (folder, *folder.rglob("*"))} == {os.getuid()}
    assert os.readlink(folder / "link") == "/etc/passwd"


def test_no_temporary_files_are_left(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = "import os; open(os.environ['TMPDIR'] + '/left', 'w'); print(os.getcwd(), os.environ['HOME'])"
    with start(code, "none") as worker:
        status = worker.wait(20)
        assert status is not None and status.ok, worker.output_tail()
        assert worker.output_tail().split() == [str(Path(worker.output_tail().split()[0]))] * 2
        assert str(tmp_path) in worker.output_tail()
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_and_no_process_is_left(level) -> None:
    start("", level).close()
    gc.collect()  # what earlier tests let go is not to go while this one counts
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    for _ in range(3):
        start("print(1)", level).close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads


def test_limits_are_the_callers(level) -> None:
    code = "while True: pass"
    with start(code, level, limits=Limits(cpu_s=1)) as worker:
        status = worker.wait(20)
        assert status is not None and status.signal == signal.SIGXCPU


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"argv": ["python3"]}, "no absolute path"),
        ({"argv": ["/nowhere/python3"]}, "/nowhere/python3"),
        ({"readable": (Path("/nowhere"),)}, "readable path /nowhere does not exist"),
        ({"writable": (Path("/nowhere"),)}, "writable path /nowhere does not exist"),
        ({"readable": (Path("/"),)}, "would give a worker too much"),
        ({"writable": (Path("/tmp"),)}, "would give a worker too much"),
        ({"devices": ("/dev/nowhere",)}, "device /dev/nowhere does not exist"),
        ({"devices": ("/etc/passwd",)}, "does not exist under /dev"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_request_is_named_and_never_weakens(change, message) -> None:
    settings = {"argv": [sys.executable, "-c", ""], "level": "auto", "forkable": True, **change}
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SandboxError, match=message):
        spawn(SpawnRequest(**settings))
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_unknown_level_is_a_usage_error() -> None:
    with pytest.raises(ValueError, match="'fulll' is none of auto, full, user, none"):
        start("", "fulll")
