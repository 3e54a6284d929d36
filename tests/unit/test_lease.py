"""One job per device at a time, in the order in which they came, whatever becomes of them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbverified import gpu_choice, lease

GPUS = """GPU-aaaa-1, NVIDIA H200, 580.1, 143771, 9.0, Disabled
GPU-bbbb-2, NVIDIA H200, 580.1, 143771, 9.0, Disabled
"""
CHOOSER = """
from kbverified import gpu_choice
with gpu_choice.chosen("cuda") as place:
    print(place, flush=True)
    input()
"""
# A GPU without MIG, one that is divided, one that is divided into nothing yet; and how nvidia-smi -L shows them.
DIVIDED = """GPU-aaaa-1, NVIDIA T4, 580.1, 15360, 7.5, [N/A]
GPU-bbbb-2, NVIDIA H200, 580.1, 143771, 9.0, Enabled
GPU-cccc-3, NVIDIA H200, 580.1, 143771, 9.0, Enabled
"""
PARTS = """GPU 0: NVIDIA T4 (UUID: GPU-aaaa-1)
GPU 1: NVIDIA H200 (UUID: GPU-bbbb-2)
  MIG 3g.71gb     Device  0: (UUID: MIG-1111-3)
  MIG 1g.18gb+me  Device  1: (UUID: MIG-2222-1)
GPU 2: NVIDIA H200 (UUID: GPU-cccc-3)
"""

# Holds a device until a line comes, and says what it does.
HOLDER = """
import sys
from kbverified import gpu_choice, lease
held = lease.acquire(sys.argv[1], waiting=lambda text: print(text, flush=True))
print("holds", held.device, flush=True)
sys.stdin.readline()
held.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KBV_LEASE_DIR", str(tmp_path / "leases"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "leases"


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Replace nvidia-smi; returns a function that sets what it prints and how it ends."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def write(text: str, code: int = 0, parts: str = "") -> None:
        script = folder / "nvidia-smi"
        lists, asked = (f"cat <<'END'\n{lines}END" for lines in (parts, text))
        script.write_text(f'#!/bin/sh\nif [ "$1" = -L ]; then\n{lists}\nelse\n{asked}\nfi\nexit {code}\n')
        script.chmod(0o755)
        forget_gpus()

    write(GPUS)
    yield write
    forget_gpus()


def forget_gpus() -> None:
    lease.installed_gpus.cache_clear()
    lease.mig_instances.cache_clear()


class Holder:
    """Another process that wants a device."""

    def __init__(self, kind: str, **environment: str):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        self.text = b""

    def says(self, within_s: float = 20.0) -> str:
        """Its next line; an empty one where none comes in time."""
        deadline = time.monotonic() + within_s
        while b"\n" not in self.text:
            if not select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return ""
            self.text += os.read(self.process.stdout.fileno(), 4096) or b"\n"
        line, self.text = self.text.split(b"\n", 1)
        return line.decode()

    def go_on(self) -> None:
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start():
    started: list[Holder] = []

    def begin(kind: str = "cpu", **environment: str) -> Holder:
        started.append(Holder(kind, **environment))
        return started[-1]

    yield begin
    for holder in started:
        holder.end()


def taken(kind: str = "cpu") -> bool:
    """Whether somebody holds a device of a kind, and every one that was ever held."""
    pattern = "cpu-*.lock" if kind == "cpu" else "GPU-*.lock"
    files = list(Path(os.environ["KBV_LEASE_DIR"]).glob(pattern))
    return bool(files) and all(probe(path) is None for path in files)


def test_one_holder_at_a_time_across_processes(start):
    first = start()
    assert first.says() == f"holds cpu-{os.getuid()}"
    assert taken()
    second = start()
    wait_for_the_head()
    assert second.says(within_s=0.2) == ""
    first.go_on()
    assert first.says() == "closed"  # the process lives on, the device is free
    assert second.says().startswith("holds")
    assert taken()


def test_the_death_of_a_holder_frees_its_device(start):
    first = start()
    assert first.says().startswith("holds")
    assert taken()
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert not taken()


def test_a_child_of_the_holder_does_not_keep_the_device():
    with lease.acquire("cpu"):
        child = subprocess.Popen(["sleep", "30"])
    try:
        assert not taken()
    finally:
        child.kill()
        child.wait()


def test_who_waits_is_served_in_the_order_of_arrival(start):
    """The second to come polls for the device; the later ones queue behind it in the kernel."""
    first = start()
    assert first.says().startswith("holds")
    waiting = []
    for _ in range(4):
        waiting.append(start())
        if len(waiting) > 1:
            assert waiting[-1].says() == "waiting for a cpu device"
            time.sleep(0.1)  # from its word to its place in the queue is one system call
        else:
            wait_for_the_head()
    previous = first
    for holder in waiting:
        assert taken()
        others = [h for h in waiting if h is not holder]
        previous.go_on()
        assert holder.says().startswith("holds")
        assert all(h.process.poll() is None for h in others)
        previous = holder


def head_of_queue_is_taken() -> bool:
    """Whether somebody waits at the head of the queue, as seen from outside."""
    files = list(Path(os.environ["KBV_LEASE_DIR"]).glob("queue-*.lock"))
    return any(free is None for free in map(probe, files))


def wait_for_the_head() -> None:
    """Until a waiting process stands at the head of the queue."""
    deadline = time.monotonic() + 20
    while not head_of_queue_is_taken():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def probe(path: Path) -> bool | None:
    fd = lease.try_lock(path)
    if fd is None:
        return None
    os.close(fd)
    return True


def test_a_killed_waiter_is_passed_over(start):
    first = start()
    assert first.says().startswith("holds")
    head = start()
    wait_for_the_head()
    second = start()
    assert second.says() == "waiting for a cpu device"
    head.process.send_signal(signal.SIGKILL)
    first.go_on()
    assert second.says().startswith("holds")


def test_times_waited_and_held_are_kept(start):
    first = start()
    assert first.says().startswith("holds")
    began = time.monotonic()
    first.go_on()
    with lease.acquire("cpu") as held:
        waited = time.monotonic() - began
        time.sleep(0.05)
    assert 0 <= held.waited_s <= waited
    assert 0.05 <= held.held_s < 5
    held.close()  # a second time does no harm
    assert held.held_s < 5


def test_a_device_that_does_not_get_free_is_an_error_that_says_where_to_look(start, places):
    assert start().says().startswith("holds")
    with pytest.raises(TimeoutError, match=rf"no cpu device.*{places}"):
        lease.acquire("cpu", timeout_s=0.1)
    # The failed attempt gave its place in the queue back.
    assert not head_of_queue_is_taken()


def test_the_folder_is_made_and_named_by_the_environment(places, monkeypatch):
    assert not places.exists()
    lease.acquire("cpu").close()
    assert (places / f"cpu-{os.getuid()}.lock").exists()
    monkeypatch.delenv("KBV_LEASE_DIR")
    assert lease.lease_directory() == Path("/tmp/kbverified-leases")


def a_link(path):
    path.symlink_to(path.parent / "somewhere-else")


@pytest.mark.parametrize("planted", [os.mkfifo, a_link, Path.mkdir], ids=["FIFO", "link", "folder"])
def test_what_is_no_file_is_no_lock_and_nobody_waits_for_it(places, planted):
    lease.made_directory()
    path = places / f"cpu-{os.getuid()}.lock"
    planted(path)
    with pytest.raises(lease.NoDevice, match=rf"{path} is no plain file.*KBV_LEASE_DIR"):
        lease.acquire("cpu")
    assert not (places / "somewhere-else").exists()
    assert not head_of_queue_is_taken()


# --- GPUs -----------------------------------------------------------------------------------------------------------


def test_what_nvidia_smi_lists(smi):
    found = lease.installed_gpus()
    assert [gpu.uuid for gpu in found] == ["GPU-aaaa-1", "GPU-bbbb-2"]
    assert found[0] == lease.Gpu("GPU-aaaa-1", "NVIDIA H200", "580.1", 143771, "9.0")


@pytest.mark.parametrize(("text", "code"), [("", 0), (GPUS, 9), ("No devices were found\n", 0), ("\n\n", 0)])
def test_no_gpu_is_an_empty_list(smi, text, code):
    smi(text, code)
    assert lease.installed_gpus() == []


def test_without_nvidia_smi_there_is_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    forget_gpus()
    assert lease.installed_gpus() == []
    with pytest.raises(lease.NoDevice, match=r"nvidia-smi and CUDA_VISIBLE_DEVICES.*device: cpu"):
        lease.acquire("cuda")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ["GPU-aaaa-1", "GPU-bbbb-2"]),
        ("0", ["GPU-aaaa-1"]),
        ("1", ["GPU-bbbb-2"]),
        ("1,0", ["GPU-bbbb-2", "GPU-aaaa-1"]),
        (" 0 , 1 ", ["GPU-aaaa-1", "GPU-bbbb-2"]),
        ("GPU-bbbb-2", ["GPU-bbbb-2"]),
        ("GPU-b", ["GPU-bbbb-2"]),
        ("", []),
        ("7", []),
        ("GPU-cccc", []),
        ("-1", []),
        ("GPU-bbbb-2,0", ["GPU-bbbb-2", "GPU-aaaa-1"]),
        ("GPU-", []),  # of which of them?
        ("1,-1,0", ["GPU-bbbb-2"]),  # CUDA reads no further than a word that names nothing
        ("7,0", []),
        ("0,,1", ["GPU-aaaa-1"]),
        ("1,1", ["GPU-bbbb-2"]),  # one device, however often
    ],
)
def test_visible_devices_are_respected(smi, monkeypatch, value, expected):
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [gpu.uuid for gpu in lease.visible_gpus()] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ["GPU-aaaa-1", "MIG-1111-3", "MIG-2222-1"]),
        ("0", ["GPU-aaaa-1"]),
        ("1", ["MIG-1111-3", "MIG-2222-1"]),
        ("2", []),
        ("GPU-bbbb", ["MIG-1111-3", "MIG-2222-1"]),
        ("MIG-2222-1", ["MIG-2222-1"]),
        ("MIG-2", ["MIG-2222-1"]),
        ("MIG-2222-1,0", ["MIG-2222-1", "GPU-aaaa-1"]),
        ("MIG-3333-1", []),
        ("MIG-", []),
    ],
)
def test_instances_of_a_divided_gpu_are_devices_and_it_is_none(smi, monkeypatch, value, expected):
    smi(DIVIDED, parts=PARTS)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [gpu.uuid for gpu in lease.visible_gpus()] == expected


def test_an_instance_is_never_taken_for_the_whole_gpu(smi):
    smi(DIVIDED, parts=PARTS)
    _, large, small = lease.visible_gpus()
    assert large == lease.Gpu("MIG-1111-3", "NVIDIA H200 MIG 3g.71gb", "580.1", 71 * 1024, "9.0")
    assert (small.name, small.memory_mib) == ("NVIDIA H200 MIG 1g.18gb+me", 18 * 1024)


def test_instances_under_their_old_names(smi, monkeypatch):
    """Drivers before 470 name an instance by its GPU."""
    old = PARTS.replace("MIG-1111-3", "MIG-GPU-bbbb-2/1/0").replace("MIG-2222-1", "MIG-GPU-bbbb-2/2/0")
    smi(DIVIDED, parts=old)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-GPU-bbbb-2/2/0")
    assert [gpu.uuid for gpu in lease.visible_gpus()] == ["MIG-GPU-bbbb-2/2/0"]


def test_no_visible_gpu_is_no_device(smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(lease.NoDevice):
        lease.acquire("cuda")


def test_two_gpus_serve_two_jobs_and_a_third_waits(smi, start):
    first, second = start("cuda"), start("cuda")
    words = [next(word for word in iter(holder.says, "") if word.startswith("holds")) for holder in (first, second)]
    assert sorted(words) == ["holds GPU-aaaa-1", "holds GPU-bbbb-2"]
    assert taken("cuda")
    assert not taken("cpu")
    third = start("cuda")
    wait_for_the_head()
    second.go_on()
    assert third.says() == words[1]


def test_two_instances_of_one_gpu_serve_two_jobs(smi, start):
    smi(DIVIDED, parts=PARTS)
    first, second = (start("cuda", CUDA_VISIBLE_DEVICES="1") for _ in range(2))
    words = [next(word for word in iter(holder.says, "") if word.startswith("holds")) for holder in (first, second)]
    assert sorted(words) == ["holds MIG-1111-3", "holds MIG-2222-1"]


def test_as_many_gpus_as_there_are(smi):
    """Eight on a host is common; nothing stops at two."""
    smi("".join(f"GPU-{n:02}, NVIDIA H200, 580.1, 143771, 9.0, Disabled\n" for n in range(16)))
    held = [lease.acquire("cuda", timeout_s=0.1) for _ in range(16)]
    assert [one.device for one in held] == [f"GPU-{n:02}" for n in range(16)]
    with pytest.raises(TimeoutError):
        lease.acquire("cuda", timeout_s=0.1)
    for one in held:
        one.close()


def test_jobs_with_different_views_of_the_machine_exclude_each_other(smi, start):
    """They stand in different queues; the device's own lock keeps them apart."""
    all_see = start("cuda")
    assert all_see.says() == "holds GPU-aaaa-1"
    one_sees = start("cuda", CUDA_VISIBLE_DEVICES="GPU-aaaa-1")
    wait_for_the_head()
    assert one_sees.says(within_s=0.2) == ""
    all_see.go_on()
    assert one_sees.says() == "holds GPU-aaaa-1"


def test_a_lease_names_the_gpu_it_holds(smi):
    with lease.acquire("cuda") as first, lease.acquire("cuda") as second:
        assert (first.gpu.uuid, second.gpu.uuid) == ("GPU-aaaa-1", "GPU-bbbb-2")
        assert first.device == first.gpu.uuid
    with lease.acquire("cpu") as held:
        assert held.gpu is None


def test_who_needs_one_gpu_waits_for_it_though_another_is_free(smi):
    held = lease.acquire("cuda", place=1)
    assert held.device == "GPU-bbbb-2"
    with pytest.raises(TimeoutError):
        lease.acquire("cuda", timeout_s=0.1, place=1)
    with lease.acquire("cuda") as other:
        assert other.device != held.device
    held.close()
    with lease.acquire("cuda", timeout_s=0.1, place=1) as again:
        assert again.device == held.device


def test_one_name_always_gets_the_same_gpu_and_names_spread(smi):
    def place(name: str) -> int | None:
        with gpu_choice.chosen("cuda", name) as found:
            return found

    names = [f"generations/g/s/level1_{n}/0.py" for n in range(20)]
    first = [place(name) for name in names]
    assert [place(name) for name in names] == first
    assert set(first) == {0, 1}


def test_who_names_nothing_gets_the_gpu_that_the_fewest_have_chosen(smi):
    with contextlib.ExitStack() as stack:
        every = [stack.enter_context(gpu_choice.chosen("cuda")) for _ in range(4)]
        assert every == [0, 1, 0, 1]
        at_first = next(name for name in map(str, range(20)) if lease.chosen_place(name, 2) == 0)
        with gpu_choice.chosen("cuda", at_first) as named:
            assert named == 0  # it has no choice, and counts
            assert stack.enter_context(gpu_choice.chosen("cuda")) == 1
    with gpu_choice.chosen("cuda") as again:
        assert again == 0  # all of them have ended


def test_what_counts_is_how_many_have_chosen_a_gpu_not_who_came_first(smi):
    at_first = next(name for name in map(str, range(20)) if lease.chosen_place(name, 2) == 0)
    with contextlib.ExitStack() as stack:
        named = [gpu_choice.chosen("cuda", at_first) for _ in range(3)]
        assert [one.__enter__() for one in named] == [0, 0, 0]
        assert stack.enter_context(gpu_choice.chosen("cuda")) == 1
        named[0].__exit__(None, None, None)  # two have the first GPU now, and one the second
        assert stack.enter_context(gpu_choice.chosen("cuda")) == 1
        assert stack.enter_context(gpu_choice.chosen("cuda")) == 0  # two and two: the first of them
        for one in named[1:]:
            one.__exit__(None, None, None)


def test_jobs_that_choose_at_once_spread_evenly(smi):
    jobs = [
        subprocess.Popen([sys.executable, "-c", CHOOSER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    try:
        assert sorted(job.stdout.readline() for job in jobs) == ["0\n", "0\n", "1\n", "1\n"]
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def test_a_dead_jobs_choice_is_forgotten(smi, tmp_path):
    job = subprocess.Popen([sys.executable, "-c", CHOOSER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout.readline() == "0\n"
        with gpu_choice.chosen("cuda") as place:
            assert place == 1
        job.kill()
        job.wait()
        with gpu_choice.chosen("cuda") as place:
            assert place == 0
    finally:
        job.kill()
        job.communicate()


def test_with_one_gpu_there_is_nothing_to_choose(smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with gpu_choice.chosen("cuda") as place, gpu_choice.chosen("cuda", "this") as named:
        assert place == named == 0 and lease.visible_gpus()[place].uuid == "GPU-bbbb-2"
    with gpu_choice.chosen("cpu", "this") as place:
        assert place is None


def test_where_no_gpu_is_none_is_chosen(monkeypatch):
    monkeypatch.setattr(lease, "visible_gpus", list)
    with gpu_choice.chosen("cuda", "this") as place:
        assert place is None
