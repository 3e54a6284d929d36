"""``doctor``: what it makes of what a machine says, and one real look at this one."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kbverified
from kbverified import doctor
from kbverified.doctor import finding, gpus, machine, sandboxes, software
from kbverified.lease import Gpu
from kbverified.sandbox import reachable_level

H200 = Gpu("GPU-1", "NVIDIA H200", "580.1", 143771, "9.0")
STATE = gpus.GpuState(
    H200,
    visible=True,
    used_bytes=1 << 20,
    mig=False,
    compute_mode=0,
    persistence=True,
    sm_clock_mhz=345,
    max_sm_clock_mhz=1980,
    reasons=0x1,
    temperature_c=30,
    power_w=75.0,
    power_limit_w=700.0,
    processes=(),
)
ONE = gpus.Machine((STATE,), None, None, "13.0")
TORCH = {"cuda": "13.0", "architectures": ["sm_80", "sm_90", "compute_90"]}


def statuses(found) -> dict[str, str]:
    return {one.name: one.status for one in found}


def only(found, status: str) -> finding.Finding:
    rest = [one for one in found if one.status == status]
    assert len(rest) == 1, rest
    return rest[0]


# --- a finding ------------------------------------------------------------------------------------------------------


def test_what_is_not_ok_says_what_to_do():
    with pytest.raises(ValueError, match="what to do"):
        finding.Finding("disk", "warn", "full")
    with pytest.raises(ValueError, match="what to do"):
        finding.Finding("disk", "ok", "free", "nothing")


def test_what_cannot_be_looked_at_ends_nothing():
    def broken():
        yield finding.ok("first", "fine")
        raise OSError(13, "Permission denied")

    (found,) = finding.look("disk", broken)
    assert (found.name, found.status) == ("disk", "warn") and "Permission denied" in found.value


def test_room_is_looked_for_where_a_folder_will_be(tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    later = tmp_path / "not" / "there" / "yet"
    assert finding.room("disk", later, 0, free // 2, "x").status == "ok"
    assert finding.room("disk", later, 0, 2 * free, "x").status == "warn"
    found = finding.room("disk", later, 2 * free, 3 * free, "builds need it")
    assert found.status == "fail" and "builds need it" in found.todo and not later.exists()


# --- GPUs -----------------------------------------------------------------------------------------------------------


def test_an_idle_gpu_is_fine():
    found = list(gpus.findings(ONE, "cuda", TORCH))
    assert set(statuses(found).values()) == {"ok"}
    text = " ".join(one.value for one in found)
    assert all(part in text for part in ("NVIDIA H200", "9.0", "580.1", "345 of 1980 MHz", "idle", "75 of 700 W"))


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"mig": True}, "fail", "MIG is on"),
        ({"compute_mode": 3}, "fail", "exclusive process"),
        ({"compute_mode": 2}, "fail", "prohibited"),
        ({"processes": (123, 456)}, "warn", "123, 456"),
        ({"processes": None, "used_bytes": 100 << 30}, "warn", "100.0 GiB of 140.4 GiB used"),
        ({"reasons": 0x40}, "warn", "hardware thermal slowdown"),
        ({"reasons": 0x8 | 0x80}, "warn", "hardware slowdown, power brake"),
        ({"reasons": 0x2}, "warn", "application clocks"),
    ],
)
def test_what_is_in_the_way_of_a_gpu_is_said(changes, status, said):
    found = only(gpus.findings(replace(ONE, gpus=(replace(STATE, **changes),)), "cuda", TORCH), status)
    assert said in found.value and found.todo


def test_a_power_cap_drops_no_round_and_is_no_remark():
    found = list(gpus.of_one(replace(STATE, reasons=0x4), "GPU 0"))
    assert set(statuses(found).values()) == {"ok"} and "software power cap" in found[-1].value


def test_what_nvml_does_not_say_is_left_out():
    silent = gpus.Machine((gpus.GpuState(H200, True),), None, "No module named 'pynvml'")
    found = list(gpus.findings(silent, "cuda", TORCH))
    assert "clock" not in " ".join(one.name for one in found)
    assert "nvidia-ml-py" in only(found, "warn").todo


def test_without_a_gpu_it_depends_on_what_is_wanted(monkeypatch):
    none = gpus.Machine((), "no NVIDIA driver is installed", None)
    assert only(gpus.findings(none, "auto", TORCH), "warn").value == "no NVIDIA driver is installed"
    assert only(gpus.findings(none, "cuda", TORCH), "fail").todo
    hidden = gpus.Machine((replace(STATE, visible=False),), None, None)
    assert "CUDA_VISIBLE_DEVICES" in only(gpus.findings(hidden, "cuda", TORCH), "fail").value


def test_gpus_of_two_kinds_are_told_apart():
    other = replace(STATE, gpu=replace(H200, uuid="GPU-2", name="NVIDIA A100"))
    found = only(gpus.findings(replace(ONE, gpus=(STATE, other)), "cuda", TORCH), "warn")
    assert "NVIDIA A100, NVIDIA H200" in found.value and "CUDA_VISIBLE_DEVICES" in found.todo


@pytest.mark.parametrize(
    ("capability", "built", "runs"),
    [
        ("9.0", ["sm_80", "sm_90"], True),
        ("8.6", ["sm_80"], True),
        ("8.0", ["sm_86"], False),
        ("9.0", ["sm_80"], False),
        ("9.0", ["sm_80", "compute_80"], True),
        ("7.0", ["sm_80", "compute_80"], False),
        ("12.0", ["sm_90a", "sm_120"], True),
        ("10.0", ["sm_120"], False),
    ],
)
def test_code_runs_within_its_major_version_and_ptx_upwards(capability, built, runs):
    assert gpus.runs_on(capability, built) is runs
    failed = list(gpus.code_for(replace(H200, compute_capability=capability), {"architectures": built}))
    assert [one.status for one in failed] == ([] if runs else ["fail"])


@pytest.mark.parametrize(("driver", "torch", "status"), [("13.0", "13.1", "ok"), ("12.4", "13.0", "fail")])
def test_a_driver_runs_its_own_major_version(driver, torch, status):
    assert only(gpus.driver(replace(ONE, driver_cuda=driver), torch), status)


# --- compilers, packages, limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("Build cuda_13.0.r13.0/compiler.36424714_0", "13.0"),
        ("Cuda compilation tools, release 12.4, V12.4.131", "12.4"),
        ("nvcc", None),
    ],
)
def test_nvcc_s_own_words_are_read(text, release):
    assert software.cuda_release(text) == release


def test_another_major_version_of_cuda_will_not_build():
    (found,) = software.nvcc("Build cuda_12.4.r12.4/compiler.1", "13.0", "9.0")
    assert found.status == "fail" and "12.4" in found.value and "CUDA_HOME" in found.todo
    (found,) = software.nvcc(None, "13.0", "9.0")
    assert found.status == "warn" and found.value == "not found"


def test_a_compiler_that_cannot_compile_is_found_by_trying(monkeypatch, tmp_path):
    fake = tmp_path / "c++"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "fake 1.0" && exit 0\necho "error: no such luck" >&2; exit 1\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    software.toolchain.find.cache_clear()
    found = statuses(software.compilers(None, None))
    assert found == {"C++ compiler": "fail", "ninja": "ok"}
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    software.toolchain.find.cache_clear()
    failed = only(software.compilers(None, None), "fail")
    assert failed.name == "C++ compiler" and "apt install g++" in failed.todo
    software.toolchain.find.cache_clear()


@pytest.mark.parametrize(
    ("facts", "device", "status", "said"),
    [
        ("cannot be imported: libcudart", "cpu", "fail", "libcudart"),
        ({"torch": "2.13.0+cpu", "cuda": None}, "cuda", "fail", "without CUDA"),
        ({"torch": "2.13.0", "cuda": "13.0", "cuda_bindings": False}, "cuda", "fail", "cuda-bindings"),
        ({"torch": "2.13.0", "cuda": "13.0", "cuda_bindings": True, "available": False}, "cuda", "fail", "no GPU"),
    ],
)
def test_what_torch_lacks_is_said(facts, device, status, said):
    if isinstance(facts, dict):
        facts = {**facts, "cpu": {"shared": True, "matmul_ms": 0.1, "resident_peak": True}}
    found = only(software.torch(facts, device), status)
    assert found.name == "torch" and said in found.value and found.todo


def test_a_cpu_device_that_shares_nothing_does_not_work():
    facts = {"torch": "2.13.0", "cuda": None, "cpu": {"shared": False, "matmul_ms": 0.1, "resident_peak": True}}
    assert only(software.torch(facts, "cpu"), "fail").name == "device cpu"
    facts = {"torch": "2.13.0", "cuda": None, "cpu_error": "MemoryError: a shared buffer"}
    assert "a shared buffer" in only(software.torch(facts, "cpu"), "fail").value


def test_parts_of_snakemake_s_report_that_are_missing_are_named(tmp_path):
    assert "vega/vega.js" in software.report_parts(tmp_path).value and software.report_parts(None).status == "warn"
    for part in software.REPORT_PARTS:
        (tmp_path / "assets/data" / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "assets/data" / part).write_text("")
    assert software.report_parts(tmp_path).status == "ok"


def test_a_container_s_share_of_the_cpus_is_read(tmp_path):
    quota = tmp_path / "cpu.max"
    assert machine.cpu_quota(quota) is None
    quota.write_text("max 100000\n")
    assert machine.cpu_quota(quota) is None
    quota.write_text("150000 100000\n")
    assert machine.cpu_quota(quota) == 1.5


def test_low_limits_are_named_with_who_needs_them():
    code = "from kbverified.doctor import machine; print([f for f in machine.limits()])"
    source = str(Path(kbverified.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": source},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)),
    )  # fmt: skip
    assert "warn" in done.stdout and "128 open files (for torch and the evaluator)" in done.stdout


# --- this machine ---------------------------------------------------------------------------------------------------


def test_the_sandbox_level_is_the_one_that_workers_reach(tmp_path):
    (found,) = sandboxes.levels()
    assert f"level {reachable_level()} by" in found.value
    (reached,) = sandboxes.reaches(tmp_path / "not" / "there" / "yet")
    assert reached.status == "ok" and not list(tmp_path.iterdir())


def test_a_mechanism_that_is_refused_says_why():
    if os.geteuid() == 0:
        assert "root" in sandboxes.refusal("user-namespaces")
    else:
        assert "root" in sandboxes.refusal("root-namespaces")
    assert sandboxes.refusal("bare") is None


@pytest.fixture(scope="module")
def examined(tmp_path_factory) -> subprocess.CompletedProcess[str]:
    base = tmp_path_factory.mktemp("doctor")
    environment = {**os.environ, "KBV_CACHE_DIR": str(base / "cache"), "KBV_LEASE_DIR": str(base / "leases")}
    words = [sys.executable, "-m", "kbverified", "doctor", "--device", "cpu", "--json"]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=base)


def test_this_machine_can_run_on_its_cpu(examined):
    read = json.loads(examined.stdout)
    by_name = {one["name"]: one for one in read["findings"]}
    assert read["exit_code"] == examined.returncode
    assert (examined.returncode == 1) == any(one["status"] == "fail" for one in read["findings"])
    for name in ("device cpu", "torch", "C++ compiler", "ninja", "Snakemake", "Snakemake's report", "Python"):
        assert by_name[name]["status"] == "ok", by_name[name]
    assert not any("GPU" in name for name in by_name)
    assert all((one["status"] == "ok") == (one["todo"] is None) for one in read["findings"])


def test_the_page_and_its_exit_code(capsys):
    sections = {"One": [finding.ok("torch", "2.13")], "Two": [finding.fail("disk", "full \x1b[2J", "make room")]}
    from kbverified.doctor.report import print_findings

    print_findings(sections)
    out = capsys.readouterr().out
    assert "fail disk" in out and "-> make room" in out and "\x1b" not in out
    assert "1 of these do not work" in out and len(doctor.failures(sections)) == 1
    assert doctor.summary({"One": sections["One"]})[0].startswith("All of it works. To see it work: kbverified check")
