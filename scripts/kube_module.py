"""Makes a Go module from which kube-apiserver can be built: ``kube_module.py FOLDER v1.37.2``.

k8s.io/kubernetes is no module to depend on by itself: its go.mod replaces each of its parts by a folder of its own
repository. The same parts are published as modules, v0.37.2 for v1.37.2.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

MODULE = "k8s.io/kubernetes"
COMMAND = f"{MODULE}/cmd/kube-apiserver"


def main(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    told = go(folder.parent, "mod", "download", "-json", f"{MODULE}@{version}")
    own = Path(json.loads(told)["GoMod"]).read_text()
    parts = sorted(set(re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", own, re.MULTILINE)))
    goes = re.search(r"^go (\S+)$", own, re.MULTILINE)
    assert parts and goes, f"{MODULE} {version} has no parts of its own any more"
    published = version.replace("v1.", "v0.", 1)
    lines = ["module kube", f"go {goes[1]}", f"require {MODULE} {version}"]
    lines += [f"replace {part} => {part} {published}" for part in parts]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    (folder / "tools.go").write_text(f'//go:build tools\n\npackage kube\n\nimport _ "{COMMAND}"\n')
    go(folder, "mod", "tidy")


def go(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
