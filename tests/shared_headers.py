"""Builds of their own without precompiled headers of their own."""

from pathlib import Path


def share_headers(shared_build: Path, build_root: Path) -> None:
    """Let a new build root have the precompiled headers of a shared one."""
    (shared_build / "pch").mkdir(parents=True, exist_ok=True)
    build_root.mkdir(parents=True)
    (build_root / "pch").symlink_to(shared_build / "pch")
