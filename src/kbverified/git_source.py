"""Where a file of a git checkout comes from, said only as far as it is true."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path


class Commit:
    """The git commit of a folder, and whether a file is what that commit holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commit = self._git("rev-parse", "HEAD").strip()
        tree = self._git("ls-tree", "-r", "-z", "--full-name", "HEAD") if self.commit else ""
        blobs = [entry.partition("\t") for entry in tree.split("\0") if entry]
        self.blobs = {name: mode.split()[2] for mode, _, name in blobs}
        self.prefix = self._git("rev-parse", "--show-prefix").strip() if self.commit else ""

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.folder), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        except (OSError, subprocess.SubprocessError):
            return ""  # no git, or no checkout: the source is then named by its path alone

    def name_source(self, path: Path, data: bytes) -> str:
        """``commit:path`` where the commit holds exactly these bytes, the path alone otherwise."""
        relative = path.relative_to(self.folder).as_posix()
        blob = self.blobs.get(self.prefix + relative)
        if blob is None:
            return f"{self.folder.name}/{relative}"
        hasher = hashlib.sha1 if len(blob) == 40 else hashlib.sha256
        if hasher(b"blob %d\0" % len(data) + data).hexdigest() == blob:
            return f"{self.commit}:{self.prefix}{relative}"
        return f"{self.commit}:{self.prefix}{relative} (modified)"
