"""The warm process by itself: what it imports, when it forks, whom it serves."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "sandbox"))
import warm

from kbverified import evaluator, source_digest
from kbverified.evaluator import client, server
from kbverified.evaluator import key as keys
from kbverified.sandbox import SpawnRequest, forked, import_path, spawn

SOURCES = Path(keys.PACKAGE_ROOT).parent
NOBODY = 65534


def python(code: str, **environment: str) -> str:
    words = [sys.executable, "-P", "-c", code]
    made = {**keys.environment(os.environ), "PYTHONPATH": str(SOURCES), **environment}
    done = subprocess.run(words, capture_output=True, text=True, env=made, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


PRELOADS = """
import json, os, sys
from kbverified.evaluator import preload
preload.preload(preload.LIBRARIES, preload.LIBRARIES_IF_THERE, preload.package_modules())
import torch
print(json.dumps({
    "threads": len(os.listdir("/proc/self/task")),
    "modules": sorted(name for name in sys.modules if name.startswith(("kbverified", "torch.utils.cpp_extension"))),
    "cuda": torch.cuda.is_initialized(),
    "descriptors": [os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)],
    "nvidia": [line for line in open("/proc/self/maps") if "/dev/nvidia" in line],
}))
"""


@pytest.fixture(scope="module")
def preloaded():
    return json.loads(python(PRELOADS))


def test_one_thread_and_no_driver(preloaded):
    assert preloaded["threads"] == 1  # numpy's library starts one for each core
    assert not preloaded["cuda"] and not preloaded["nvidia"]


def test_what_a_stage_needs_is_there_before_the_fork(preloaded):
    """Else every judge, or worker, would import it again."""
    needed = set()
    for stage in ("audit-problem", "compile", "hidden-gate", "time-fp32", "time-tf32", "memory"):
        for path in source_digest.files(stage):
            if path.suffix == ".py":
                parts = path.relative_to(SOURCES).with_suffix("").parts
                needed.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    missing = needed - set(preloaded["modules"])
    # The worker's program itself is executed as its main module.
    assert missing == {"kbverified.worker"}, missing


def test_what_reads_the_environment_when_it_is_imported_is_left_to_the_worker(preloaded):
    assert "torch.utils.cpp_extension" not in preloaded["modules"]


def test_no_fork_with_a_second_thread():
    code = """
import threading, time
from kbverified.evaluator import server
pid = server.fork()
if pid == 0:
    import os
    os._exit(0)
threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
try:
    server.fork()
except RuntimeError as error:
    print(error)
"""
    assert "the evaluator has 2 threads" in python(code)


@pytest.fixture
def warm_torch():
    """A warm process with torch that forks the workers of this one."""
    process = warm.start("torch", "numpy")
    yield process
    forked.use(None)
    assert process.wait(20) == 0


SAYS = "import json, torch, numpy; print(json.dumps([torch.get_num_threads(), torch.get_num_interop_threads()]))"


def said(warm_one: bool, **settings) -> list:
    environment = {"PYTHONPATH": import_path(), **settings.pop("env", {})}
    with spawn(
        SpawnRequest([sys.executable, "-P", "-c", SAYS], "auto", env=environment, forkable=warm_one, **settings)
    ) as worker:
        status = worker.wait(120)
        assert status is not None and status.ok, worker.output_tail()
        return json.loads(worker.output_tail())


def test_torch_has_as_many_threads_as_in_a_fresh_process(warm_torch):
    """Libraries choose the number when they are loaded, by the environment and the cores of that moment."""
    all_cores = sorted(os.sched_getaffinity(0))
    seen = []
    for settings in ({}, {"cores": frozenset(all_cores[:1])}, {"env": {"OMP_NUM_THREADS": "1"}},
                     {"env": {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "2"}}):  # fmt: skip
        seen.append(said(True, **settings))
        assert seen[-1] == said(False, **settings), settings
    assert seen[1][0] == seen[2][0] == 1 and (len(all_cores) == 1 or seen[0][0] > 1)


def test_an_import_that_leaves_something_open_is_refused(tmp_path):
    (tmp_path / "opens.py").write_text("import os\nfd = os.open('/dev/zero', os.O_RDONLY)\n")
    code = f"""
import sys
sys.path.append({str(tmp_path)!r})
from kbverified.evaluator import preload
try:
    preload.preload(["opens"])
except RuntimeError as error:
    print(error)
"""
    assert "imports left open /dev/zero" in python(code)


def test_an_edit_during_the_imports_is_noticed(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "kbverified.evaluator.server", "0" * 64],
            stdin=listener, env=keys.environment(os.environ), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode != 0 and "edited while the evaluator imported it" in done.stderr


# --- who may connect --------------------------------------------------------------------------------------------------

SMALL = """
import os, sys, socket
from kbverified.evaluator.server import Server
listener = socket.socket(fileno=os.dup(0))
listener.setblocking(False)
role = Server(listener, idle_s=3.0, judges_at_most=4).run()
if role == "judge":
    connection = socket.socket(fileno=3)
    connection.sendall(b"a judge\\n")
    connection.recv(1)
"""
CONNECTS = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.settimeout(20)
try:
    print(connection.recv(100))
except ConnectionError as error:
    print(b"")
"""


@pytest.fixture
def small(tmp_path):
    """An evaluator that imports nothing and whose judges greet."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "start.lock").touch()
    path = folder / "small.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        words = [sys.executable, "-P", "-c", SMALL]
        process = subprocess.Popen(words, stdin=listener, env={"PYTHONPATH": str(SOURCES)}, cwd="/")
    yield path, process
    process.kill()
    process.wait()


def test_the_same_user_is_served(small):
    path, _ = small
    done = subprocess.run([sys.executable, "-c", CONNECTS, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "b'a judge\\n'"


@pytest.mark.skipif(os.getuid() != 0, reason="being another user needs root")
def test_another_user_is_not_even_if_the_folder_let_him(small):
    path, process = small
    path.chmod(0o777)
    for folder in path.parents:
        if folder in (Path("/tmp"), Path("/")):
            break
        folder.chmod(0o755)
    python3 = "/usr/bin/python3"
    done = subprocess.run(
        [python3, "-c", CONNECTS, str(path)], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "b''"
    assert process.poll() is None


def test_a_client_that_goes_takes_its_judge_with_it(small):
    path, process = small
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    assert connection.recv(100) == b"a judge\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    assert len(children.read_text().split()) == 1
    connection.close()
    deadline = time.monotonic() + 10
    while children.read_text().split() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not children.read_text().split()


def test_it_serves_on_and_ends_when_idle(small):
    path, process = small
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            assert connection.recv(100) == b"a judge\n"
    assert process.wait(20) == 0
    assert not path.exists()


def test_more_clients_than_it_has_descriptors_for_wait_their_turn(small):
    path, process = small
    served = [_connected(path) for _ in range(4)]
    assert [connection.recv(100) for connection in served] == [b"a judge\n"] * 4
    fifth = _connected(path)
    fifth.settimeout(0.5)
    with pytest.raises(TimeoutError):
        fifth.recv(100)
    served.pop().close()
    fifth.settimeout(20)
    assert fifth.recv(100) == b"a judge\n"
    assert process.poll() is None
    for connection in (*served, fifth):
        connection.close()


@pytest.mark.parametrize(("descriptors", "judges"), [(1024, 496), (64, 16), (8, 1)])
def test_two_descriptors_a_judge(descriptors, judges):
    assert server.judges_that_fit(descriptors) == judges


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return connection


# --- the client -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_a_folder_that_others_may_enter_is_refused(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("KBV_EVALUATOR_DIR", str(tmp_path / "folder"))
    assert client.folder() == tmp_path / "folder"
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700
    (tmp_path / "folder").chmod(mode)
    with pytest.raises(client.Unusable, match="mode 0700"):
        client.folder()


def test_a_link_in_its_place_is_refused(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("KBV_EVALUATOR_DIR", str(tmp_path / "link"))
    with pytest.raises(client.Unusable):
        client.folder()


@pytest.mark.skipif(os.getuid() != 0, reason="giving a folder away needs root")
def test_another_users_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir(mode=0o700)
    os.chown(tmp_path / "folder", NOBODY, NOBODY)
    monkeypatch.setenv("KBV_EVALUATOR_DIR", str(tmp_path / "folder"))
    with pytest.raises(client.Unusable):
        client.folder()


def test_what_killed_evaluators_left_is_removed_and_what_lives_is_not(tmp_path):
    for name, text in (("alive", ""), ("killed", ""), ("failed", "ImportError: torch")):
        (tmp_path / f"{name}.sock").touch()
        (tmp_path / f"{name}.log").write_text(text)
    with open(tmp_path / "alive.log") as log:
        fcntl.flock(log, fcntl.LOCK_SH)
        alive = subprocess.Popen(["sleep", "60"], stderr=log)
    try:
        client._sweep(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"alive.sock", "alive.log", "failed.log"}
    finally:
        alive.kill()
        alive.wait()
    client._sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"failed.log"}


def test_off_unless_it_is_said(monkeypatch):
    monkeypatch.delenv("KBV_EVALUATOR", raising=False)
    assert not evaluator.wanted()
    monkeypatch.setenv("KBV_EVALUATOR", "on")
    assert evaluator.wanted()
    ours, theirs = socket.socketpair()
    forked.use(theirs)
    try:
        assert not evaluator.wanted()  # a judge that was forked does not look for another
    finally:
        forked.use(None)
        ours.close()


def test_the_client_imports_no_torch():
    code = "import sys, kbverified.cli, kbverified.stages, kbverified.evaluator.client; print('torch' in sys.modules)"
    assert python(code).strip() == "False"
