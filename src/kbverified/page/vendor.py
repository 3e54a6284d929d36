"""The one part of the page that is not ours: uPlot, as its package on the npm registry has it.

``assets/vendor/`` holds its files unchanged, with its licence, and ``vendor.json``: package, version, integrity of the
registry's archive, and sha256 of each file. They are committed, so that a page can be built where there is no npm and
no network; ``verified`` refuses a file that is not the registry's. To go to another version, edit ``version`` in
vendor.json and run ``python -m kbverified.page.vendor``, which fetches the package through npm (docs/decisions/0020).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "assets" / "vendor"
MANIFEST = "vendor.json"


class VendorError(ValueError):
    """A vendored file that is not what the manifest says. The message names the file and both digests."""


def verified(name: str, folder: Path = FOLDER) -> str:
    """The text of a vendored file. Raises VendorError where it is not the manifest's."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if name not in manifest["files"]:
        raise VendorError(f"{folder / MANIFEST}: files has no {name!r}")
    data = (folder / name).read_bytes()
    found, wanted = hashlib.sha256(data).hexdigest(), manifest["files"][name]["sha256"]
    if found != wanted:
        raise VendorError(f"{folder / name}: sha256 {found}, {MANIFEST} has {wanted}: bring it again with npm")
    return data.decode("utf-8")


def refresh(folder: Path = FOLDER) -> dict[str, Any]:
    """Fetch the manifest's package and version, write its files and their digests. Raises VendorError, OSError.

    An ``integrity`` that the manifest already has for this version must be that of the archive.
    """
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    archive = _archive(manifest["package"], manifest["version"])
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    known = manifest.get("integrity_of", {}).get(manifest["version"])
    if known not in (None, integrity):
        raise VendorError(f"{manifest['package']} {manifest['version']}: integrity {integrity}, {MANIFEST} has {known}")
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for name, entry in manifest["files"].items():
            member = tar.extractfile(f"package/{entry['path']}")
            if member is None:
                raise VendorError(f"{manifest['package']} {manifest['version']}: no file {entry['path']}")
            data = member.read()
            (folder / name).write_bytes(data)
            entry["sha256"] = hashlib.sha256(data).hexdigest()
    manifest["integrity_of"] = {manifest["version"]: integrity}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def _archive(package: str, version: str) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        command = ["npm", "pack", "--silent", "--pack-destination", place, f"{package}@{version}"]
        subprocess.run(command, check=True, cwd=place, stdout=subprocess.DEVNULL, timeout=300)
        return next(Path(place).glob("*.tgz")).read_bytes()


if __name__ == "__main__":
    print(json.dumps(refresh(), indent=1))
    sys.exit(0)
