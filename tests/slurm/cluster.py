"""A real SLURM on this machine alone, for tests: one controller and a few nodes with fake GPUs, all on loopback.

    python tests/slurm/cluster.py start FOLDER    bring it up, and print what to export to use it
    python tests/slurm/cluster.py stop FOLDER     end its jobs and daemons

Everything it writes is in FOLDER: configuration, keys, state, logs. /etc/slurm and a SLURM that is there are left
alone: the daemons get other ports, a munge of their own, and the commands find them by ``SLURM_CONF``. Needs root (a
slurmd runs jobs of others), and the Debian packages of ``PACKAGES``, which ``install`` fetches.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

PACKAGES = ("munge", "slurmctld", "slurmd", "slurm-client")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel", "sinfo")
# A GPU of SLURM is a character device; these are on every Linux. More processors than there are: nothing is timed here.
NODES = {"cpu1": "", "gpu1": "/dev/null", "gpu2": "/dev/zero"}
PROCESSORS, MEMORY_MIB = 8, 64000

CONFIG = """\
ClusterName=kbverified
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
{listen}
MailProg=/bin/true
AccountingStorageType=accounting_storage/none
# Containers of CI have no cgroups to give away.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
# A node that came back is used again, whatever it was down for; a dead one is noticed within seconds.
ReturnToService=2
SlurmdTimeout=10
KillWait=2
# Ended jobs are looked at after minutes.
MinJobAge=3600
SchedulerParameters=batch_sched_delay=0,bf_interval=5
"""


class Unavailable(RuntimeError):
    """SLURM can neither be found nor installed here; the text says why."""


def install() -> None:
    """Make sure that SLURM's programs are there. Raises Unavailable where they are not and cannot be fetched."""
    if os.geteuid() != 0:
        raise Unavailable("a SLURM of one's own needs root")
    if missing() and not shutil.which("apt-get"):
        raise Unavailable(f"{', '.join(missing())} not found, and no apt-get to install {' '.join(PACKAGES)}")
    if missing():
        _apt_get()
    if missing():
        raise Unavailable(f"{', '.join(missing())} not found after the installation of {' '.join(PACKAGES)}")


def missing() -> list[str]:
    return [program for program in PROGRAMS if not shutil.which(program)]


def _apt_get() -> None:
    # Asked by Debian's scripts whether to start a daemon once it is installed; ours are started below.
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
            command = ["timeout", "300", "apt-get", "-qq", *arguments]
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise Unavailable(f"apt-get {arguments[0]} ended with {done.returncode}: {last}")
    finally:
        if ours:
            policy.unlink()


class Cluster:
    """The daemons of one such SLURM, by their pid files, so that another process can stop what one has started."""

    def __init__(self, folder: Path):
        self.folder = folder.absolute()
        self.conf = self.folder / "slurm.conf"
        self.environment = {"SLURM_CONF": str(self.conf), "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        """What a process needs to use this SLURM."""

    # --- the whole of it ----------------------------------------------------------------------------------------
    def start(self) -> None:
        """Up with all nodes idle, or an error with the ends of the logs."""
        self._configure()
        self._munge("munged", f"--key-file={self.folder}/munge.key", f"--seed-file={self.folder}/munge.seed")
        self.start_controller()
        for node in NODES:
            self.start_node(node)

    def stop(self) -> None:
        """End all jobs, then all daemons; whatever of it is up."""
        if self.pid("slurmctld"):
            self.ask("scancel", "--full", *self.jobs(), check=False)
            for node in NODES:  # one that is down keeps its jobs for ever
                if not self.pid(f"slurmd-{node}"):
                    self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=stopped", check=False)
            until(lambda: not self.jobs(), 30, "no job left", fail=False)
        for daemon in (*(f"slurmd-{node}" for node in NODES), "slurmctld", "munged"):
            self.end(daemon)

    # --- daemons ------------------------------------------------------------------------------------------------
    def start_controller(self) -> None:
        self._start("slurmctld")
        until(lambda: "UP" in self.ask("scontrol", "ping", check=False), 30, "the controller answers", self.logs)

    def start_node(self, node: str) -> None:
        self._start("slurmd", "-N", node)
        until(lambda: self.state(node) in ("idle", "mixed", "allocated"), 30, f"node {node} is up", self.logs)

    def end(self, daemon: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End one daemon, named as its pid file, and wait until it is gone."""
        pid = self.pid(daemon)
        if pid is not None:
            os.kill(pid, how)
            if not until(lambda: self.pid(daemon) is None, 20, f"{daemon} ends", fail=False):
                os.kill(pid, signal.SIGKILL)
        (self.folder / f"{daemon}.pid").unlink(missing_ok=True)

    def cut_power(self, node: str) -> None:
        """What is gone when a node dies: slurmd, the keepers of its jobs' steps and all that runs below them, at once.

        An evaluator has left its step, and ends as it does where its clients were killed.
        """
        daemon, log = self.pid(f"slurmd-{node}"), str(self.folder / f"slurmd-{node}.log")
        keepers = [one for one in psutil.process_iter() if one.name() == "slurmstepd" and writes(one, log)]
        if daemon is None or not keepers:
            raise RuntimeError(f"nothing runs on node {node}")
        victims = [psutil.Process(daemon), *keepers, *(one for k in keepers for one in k.children(recursive=True))]
        for deed in (psutil.Process.suspend, psutil.Process.kill):
            for victim in victims:
                deed(victim)
        until(lambda: self.pid(f"slurmd-{node}") is None, 10, f"node {node} is dead")

    def pid(self, daemon: str) -> int | None:
        """The process of a pid file, if it is alive and still what it was: a zombie or a reused number is not."""
        try:
            pid = int((self.folder / f"{daemon}.pid").read_text())
            status = Path(f"/proc/{pid}/status").read_text()
        except (OSError, ValueError):
            return None
        fields = dict(line.split(":", 1) for line in status.splitlines())
        alive = fields["Name"].strip() == daemon.split("-")[0] and "Z" not in fields["State"]
        return pid if alive else None

    # --- questions ----------------------------------------------------------------------------------------------
    def ask(self, *command: str, check: bool = True) -> str:
        """What one of SLURM's commands prints."""
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def state(self, node: str) -> str:
        return self.ask("sinfo", "-h", "-N", "-n", node, "-o", "%T", check=False).strip().rstrip("*~#$@+")

    def jobs(self) -> list[str]:
        """Ids of the jobs that have not ended."""
        return self.ask("squeue", "-h", "-o", "%A", check=False).split()

    def logs(self) -> str:
        """The last lines of every daemon's log."""
        texts = (
            f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-15:]) for log in self.folder.glob("*.log")
        )
        return "\n".join(texts)

    # --- how ----------------------------------------------------------------------------------------------------
    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(exist_ok=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(256))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        controller, *ports = free_ports(1 + len(NODES))
        # They listen at the address of the host's name: loopback alone where that is it, else everywhere.
        local = resolves_to_loopback(host)
        listen = "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny" if local else ""
        lines = [CONFIG.format(host=host, port=controller, folder=self.folder, listen=listen)]
        for (node, device), port in zip(NODES.items(), ports):
            gpu = " Gres=gpu:1" if device else ""
            where = f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            lines.append(f"{where} CPUs={PROCESSORS} RealMemory={MEMORY_MIB}{gpu} State=UNKNOWN\n")
        for partition, default in (("cpu", "YES"), ("gpu", "NO")):
            nodes = ",".join(node for node, device in NODES.items() if bool(device) == (partition == "gpu"))
            lines.append(f"PartitionName={partition} Nodes={nodes} Default={default} MaxTime=INFINITE State=UP\n")
        self.conf.write_text("".join(lines))
        gres = (f"NodeName={node} Name=gpu File={device}\n" for node, device in NODES.items() if device)
        (self.folder / "gres.conf").write_text("".join(gres))
        # Snakemake's plugin clears SLURM's variables, this one too, before it calls srun inside a job.
        srun = self.folder / "bin/srun"
        srun.parent.mkdir(exist_ok=True)
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.conf} exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)

    def _munge(self, program: str, *more: str) -> None:
        socket_, pid, log = (self.folder / f"munge{end}" for end in (".socket", "d.pid", "d.log"))
        run([program, f"--socket={socket_}", f"--pid-file={pid}", f"--log-file={log}", *more], self.logs)

    def _start(self, *command: str) -> None:
        run([*command, "-f", str(self.conf)], self.logs, self.environment)


def run(command: Iterable[str], logs: Callable[[], str], more: dict[str, str] | None = None) -> None:
    """Start a daemon, which goes into the background by itself."""
    done = subprocess.run(
        list(command), env={**os.environ, **(more or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{logs()}")


def until(
    true: Callable[[], object], limit_s: float, what: str, more: Callable[[], str] = lambda: "", fail: bool = True
) -> bool:
    """Wait for a condition; False, or an error that names it, where it does not come within the limit."""
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            if fail:
                raise TimeoutError(f"waited {limit_s:.0f} s in vain: {what}\n{more()}")
            return False
        time.sleep(0.1)
    return True


def writes(process: psutil.Process, file: str) -> bool:
    try:
        return any(opened.path == file for opened in process.open_files())
    except psutil.Error:
        return False


def resolves_to_loopback(host: str) -> bool:
    try:
        return socket.gethostbyname(host).startswith("127.")
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


if __name__ == "__main__":
    action, place = sys.argv[1:]
    if action == "start":
        install()
        Cluster(Path(place)).start()
        print("\n".join(f"export {name}={value}" for name, value in Cluster(Path(place)).environment.items()))
    elif action == "stop":
        Cluster(Path(place)).stop()
    else:
        sys.exit(__doc__)
