"""Which level comes out where the machine denies what a better one needs."""

from __future__ import annotations

import pytest
from sandbox_ways import Judge, Way, python_for

from kbverified.sandbox import SandboxUnavailable, SpawnRequest, landlock, spawn


@pytest.fixture
def plain_judge(stage) -> Judge:
    """A judge that every user could run, as whoever runs the tests (root where that is root)."""
    python = python_for(as_root=True, own_uid_workers=True)
    if python is None:
        pytest.skip("no Python >= 3.11 on this machine that every user may execute")
    return Judge(Way("auto", "", as_root=True), stage, python)


@pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock to fall back to")
def test_without_namespaces_auto_means_landlock(plain_judge) -> None:
    answer = plain_judge.run("handicapped", without_landlock=False)
    assert answer["auto"] == answer["user"] == ["user", "landlock"]
    assert answer["reachable"] == "user"
    assert "level full cannot be reached" in answer["full"]


def test_without_namespaces_and_landlock_auto_means_none(plain_judge) -> None:
    answer = plain_judge.run("handicapped", without_landlock=True)
    assert answer["auto"] == answer["none"] == ["none", "bare"]
    assert answer["reachable"] == "none"
    for level in ("full", "user"):
        # Names the level, the step that failed and a way out.
        assert f"level {level} cannot be reached for worker fallback" in answer[level]
        assert "or ask for level" in answer[level]
    assert "landlock: the kernel does not offer it" in answer["user"]


def test_an_explicit_level_never_weakens(monkeypatch) -> None:
    """Level user of root never runs in a user namespace as root: without Landlock it is refused."""
    with pytest.raises(SandboxUnavailable, match="level full cannot be reached"):
        spawn(SpawnRequest(["/bin/true"], "full", mechanism="landlock"))
