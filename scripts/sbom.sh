#!/usr/bin/env bash
# scripts/sbom.sh [FOLDER]: a software bill of materials (CycloneDX, JSON) of each lock in requirements/, into FOLDER
# (default: dist/sbom), with the locked hashes.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
CYCLONEDX=7.5.0
folder=${1:-dist/sbom}
mkdir -p "$folder"
for lock in requirements/*.txt; do
    name=$(basename "$lock" .txt)
    .uv/bin/uv tool run -q --from "cyclonedx-bom==$CYCLONEDX" cyclonedx-py requirements "$lock" \
        --output-reproducible --of JSON -o "$folder/$name.cdx.json"
    echo "sbom: $folder/$name.cdx.json, $(grep -c '"purl"' "$folder/$name.cdx.json") packages"
done
