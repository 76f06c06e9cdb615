#!/usr/bin/env bash
# Proves on a GPU, without a network, what is claimed of local models: bash benchmarks/gpu.sh [WHEELS] [OUT] [OPTIONS OF gpu.py]
# WHEELS is the folder that `make gpu-bundle` fills; gpu.py says what is measured and what the machine has to have.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=${1:-wheels-gpu}
out=${2:-runs/gpu}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
python3 -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$wheels"/*.whl
export PYTHONPATH="$PWD:$PWD/benchmarks:$site" PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
python3 benchmarks/gpu.py --out "$out" "${@:3}"
