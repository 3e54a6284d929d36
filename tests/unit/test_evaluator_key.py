"""What an evaluator is keyed by: whatever could make a forked judge differ from a fresh one, and nothing more."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbverified import import_environment
from kbverified.evaluator import key as keys
from kbverified.judge import party

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/home/somebody", "LANG": "C.UTF-8"}


def test_it_does_not_change_by_itself():
    assert keys.key(ENVIRONMENT) == keys.key(dict(reversed(ENVIRONMENT.items())))
    assert len(keys.key(ENVIRONMENT)) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"SLURM_JOB_ID": "4711"},
        {"SLURM_STEP_ID": "3"},
        {"SLURM_JOB_GPUS": "0,1"},
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"CUDA_VISIBLE_DEVICES": ""},
        {"LD_LIBRARY_PATH": "/opt/other"},
        {"PATH": "/opt/bin:/usr/bin"},
        {"KBV_LEASE_DIR": "/tmp/leases"},
        {"CXX": "clang++"},
        {"SOME_VARIABLE": "that nobody has thought of"},
    ],
    ids=str,
)
def test_the_environment_is_in_it(change):
    assert keys.key(ENVIRONMENT | change) != keys.key(ENVIRONMENT)


def test_two_allocations_differ_and_so_do_their_devices():
    found = {
        keys.key(ENVIRONMENT | {"SLURM_JOB_ID": job, "CUDA_VISIBLE_DEVICES": devices})
        for job in ("1", "2")
        for devices in ("0", "1", "0,1")
    }
    assert len(found) == 6


@pytest.mark.parametrize("name", ["PWD", "SHLVL", "_", "PYTEST_CURRENT_TEST", "OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_what_differs_from_command_to_command_is_not(name):
    assert keys.key(ENVIRONMENT | {name: "4"}) == keys.key(ENVIRONMENT)


@pytest.fixture
def package(tmp_path, monkeypatch):
    copy = tmp_path / "kbverified"
    shutil.copytree(keys.PACKAGE_ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(keys, "PACKAGE_ROOT", copy)
    return copy


@pytest.mark.parametrize("name", ["worker.py", "judge/gate.py", "sandbox/seccomp.py", "evaluator/server.py"])
def test_every_byte_of_the_code_is_in_it(package, name):
    before = keys.key(ENVIRONMENT)
    path = package / name
    status, text = path.stat(), path.read_text()
    path.write_text(f"{text}# a comment, with the file's old times\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert keys.key(ENVIRONMENT) != before
    path.write_text(text)
    assert keys.key(ENVIRONMENT) == before


def test_a_new_module_and_a_moved_one_are_in_it(package):
    before = keys.key(ENVIRONMENT)
    (package / "more.py").write_text("")
    with_more = keys.key(ENVIRONMENT)
    (package / "more.py").rename(package / "moved.py")
    assert len({before, with_more, keys.key(ENVIRONMENT)}) == 3


def test_compiled_modules_are_not(package):
    before = keys.key(ENVIRONMENT)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "keys.cpython-311.pyc").write_bytes(b"x")
    assert keys.key(ENVIRONMENT) == before


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("sys", "executable", "/other/python"),
        ("sys", "version", "3.11.7 (another build)"),
        ("importlib.metadata", "version", lambda name: "2.9.0"),
    ],
)
def test_interpreter_and_torch_are_in_it(monkeypatch, place, name, value):
    before = keys.key(ENVIRONMENT)
    monkeypatch.setattr(f"{place}.{name}", value)
    assert keys.key(ENVIRONMENT) != before


def test_another_installation_of_the_same_torch_is_another(monkeypatch, tmp_path):
    before = keys.key(ENVIRONMENT)
    (tmp_path / "version.py").write_text("")
    monkeypatch.setattr("kbverified.compilation.toolchain.torch_folder", lambda: tmp_path)
    assert keys.key(ENVIRONMENT) != before


def test_where_modules_come_from_is_in_it(monkeypatch, tmp_path):
    before = keys.key(ENVIRONMENT)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert keys.key(ENVIRONMENT) != before


KEY = "from kbverified.evaluator import key; print(key.key({'PATH': '/bin'}))"


def key_of_a_process(*command: str, **options) -> str:
    words = [*command, sys.executable, "-c", KEY]
    environment = {**os.environ, "PYTHONPATH": str(Path(keys.PACKAGE_ROOT).parent)}
    return subprocess.check_output(words, text=True, env=environment, **options).strip()


def test_limits_and_priority_are_in_it():
    """A child of the evaluator has the evaluator's, and could not have its client's if they were higher."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = min(soft, 4096) - 1
    found = [
        key_of_a_process(),
        key_of_a_process(),
        key_of_a_process(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (lower, hard))),
        key_of_a_process("nice", "-n", "1"),
    ]
    assert found[0] == found[1] and len(set(found)) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="namespaces without a user namespace need root")
def test_namespaces_are_in_it():
    """Two containers may share a folder in /tmp; their processes may not share an evaluator."""
    assert key_of_a_process("unshare", "--ipc") != key_of_a_process()


@pytest.mark.skipif(os.getuid() != 0, reason="changing the user needs root")
def test_the_user_is_in_it(monkeypatch):
    monkeypatch.setattr(keys, "_lines", lambda path: ["Uid:\t1\t1\t1\t1"] if path.endswith("status") else [])
    first = keys.key(ENVIRONMENT)
    monkeypatch.setattr(keys, "_lines", lambda path: ["Uid:\t2\t2\t2\t2"] if path.endswith("status") else [])
    assert keys.key(ENVIRONMENT) != first


def test_a_job_step_is_known_by_its_cgroup(monkeypatch):
    """Also where a site clears SLURM's variables."""
    found = set()
    for job in (1, 2):
        monkeypatch.setattr(keys, "_lines", lambda path, job=job: [f"0::/system.slice/slurmstepd.scope/job_{job}"])
        found.add(keys.key(ENVIRONMENT))
    assert len(found) == 2


# --- its own environment ----------------------------------------------------------------------------------------------


def test_its_environment_has_nothing_of_the_clients():
    client = {**ENVIRONMENT, "OPENAI_API_KEY": "sk-secret", "CUDA_VISIBLE_DEVICES": "3", "LD_LIBRARY_PATH": "/opt/lib"}
    made = keys.environment(client)
    assert set(made) - set(keys.PASSED_ON) == {
        "HOME", "LANG", "PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
    }  # fmt: skip
    assert made["LD_LIBRARY_PATH"] == "/opt/lib" and made["CUDA_VISIBLE_DEVICES"] == ""
    assert not set(made.values()) & {"sk-secret", "/home/somebody", "3"}


def test_what_imports_read_is_what_a_worker_gets(tmp_path):
    """A forked worker has imported under the evaluator's environment, an executed one under its own."""
    settings = party.Settings("cpu", "auto", "fp32", 60.0, tmp_path)
    worker = party._environment(settings, None, False)
    evaluators = keys.environment(os.environ)
    for name in evaluators:
        if name.startswith((*import_environment.READ_AT_IMPORT, *import_environment.READ_AT_START)):
            assert worker[name] == evaluators[name], name
    assert not import_environment.read_at_import(worker) + import_environment.read_at_start(worker)


@pytest.mark.parametrize(
    "name", ["OMP_PROC_BIND", "MKL_DYNAMIC", "LD_PRELOAD", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTHONOPTIMIZE"]
)
def test_who_asks_for_something_special_gets_a_fresh_process(name):
    assert name in str(keys.against(ENVIRONMENT | {name: "1"}))


def test_what_snakemake_and_clusters_set_is_no_hindrance():
    usual = dict.fromkeys(import_environment.THREAD_COUNTS, "1")
    usual |= {"SLURM_JOB_ID": "1", "TMPDIR": "/tmp", "PYTHONPATH": "/a", "LD_LIBRARY_PATH": "/b", "CUDA_HOME": "/c"}
    assert keys.against(ENVIRONMENT | usual | {"TORCH_CUDA_ARCH_LIST": "9.0", "CUDA_VISIBLE_DEVICES": "0"}) is None


def test_what_torch_would_read_at_import_is_taken_out_and_named():
    wanted = {"TORCH_HOME": "/t", "OMP_NUM_THREADS": "2", "LD_LIBRARY_PATH": "/b", "SOME_TORCH": "1"}
    environ = {**wanted, "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "MKL_DYNAMIC": "0", "OMP_PROC_BIND": "true"}
    assert import_environment.drop(environ) == ["MKL_DYNAMIC", "OMP_PROC_BIND", "TORCH_SYMM_MEM_DISABLE_MULTICAST"]
    assert environ == wanted
    assert keys.against(environ) is None
