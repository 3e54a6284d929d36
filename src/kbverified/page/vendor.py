"""The one part of the page that is not ours: uPlot, as its package on the npm registry has it.

    python -m kbverified.page.vendor

fetches the version that ``assets/vendor/vendor.json`` names into the same folder, with its licence; ``make setup`` does
that. The archive has to have the integrity and each file the sha256 of vendor.json, now and at every build. None of the
files is in this repository. A page that is built without them has no charts and says so (docs/decisions/0020).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

from kbverified.records.files import write_bytes

FOLDER = Path(__file__).parent / "assets" / "vendor"
MANIFEST = "vendor.json"
REGISTRY = "https://registry.npmjs.org"
_LIMIT_S = 30.0


class VendorError(ValueError):
    """A vendored file or archive that is not what the manifest says. The message names it and both digests."""


def _manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def at_hand(folder: Path = FOLDER) -> bool:
    """Whether every file of the manifest has been fetched; ``verified`` says whether it is the right one."""
    return all((folder / name).exists() for name in _manifest(folder)["files"])


def verified(name: str, folder: Path = FOLDER) -> str:
    """The text of a fetched file. Raises VendorError where it is not the manifest's, FileNotFoundError."""
    files = _manifest(folder)["files"]
    if name not in files:
        raise VendorError(f"{folder / MANIFEST}: files has no {name!r}")
    return _checked(folder / name, (folder / name).read_bytes(), files[name]["sha256"]).decode("utf-8")


def _checked(path: Path, data: bytes, wanted: str) -> bytes:
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        raise VendorError(
            f"{path}: sha256 {found}, {MANIFEST} has {wanted}: delete it and run python -m kbverified.page.vendor"
        )
    return data


def fetch(folder: Path = FOLDER, registry: str | None = None) -> list[Path]:
    """Fetch the manifest's package and write its files. ``registry``: else npm_config_registry, else the public one.

    Raises VendorError where the archive or a file in it is another, OSError where there is no way to it.
    """
    manifest = _manifest(folder)
    package, version = manifest["package"], manifest["version"]
    where = (registry or os.environ.get("npm_config_registry") or REGISTRY).rstrip("/")
    with urllib.request.urlopen(f"{where}/{package}/-/{package}-{version}.tgz", timeout=_LIMIT_S) as answer:
        archive = answer.read()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if integrity != manifest["integrity"]:
        raise VendorError(f"{package} {version}: integrity {integrity}, {MANIFEST} has {manifest['integrity']}")
    written = []
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for name, entry in manifest["files"].items():
            member = tar.extractfile(f"package/{entry['path']}")
            assert member is not None  # the integrity is that of an archive which has it
            write_bytes(folder / name, _checked(folder / name, member.read(), entry["sha256"]))
            written.append(folder / name)
    return written


def main() -> int:
    """Fetch what is missing; 1 where that cannot be done, which costs a page its charts and nothing else."""
    if at_hand():
        return 0
    try:
        fetch()
    except (OSError, VendorError) as error:
        print(
            f"uPlot was not fetched ({error}): results/leaderboard.html will have no charts. Behind a mirror set "
            "npm_config_registry and run python -m kbverified.page.vendor",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
