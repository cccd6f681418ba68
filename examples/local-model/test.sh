#!/usr/bin/env bash
# Brings up the two llama.cpp servers of this example, runs the tests that need a real model, and stops the servers.
set -euo pipefail
cd "$(dirname "$0")/../.."
./examples/local-model/start.sh &
fleet=$!
trap 'kill $fleet 2>/dev/null || true; wait $fleet 2>/dev/null || true' EXIT
for _ in $(seq 900); do
    kill -0 $fleet || exit 1
    if curl -sf http://127.0.0.1:18201/health >/dev/null && curl -sf http://127.0.0.1:18202/health >/dev/null; then
        cargo test --locked --test a_real_model_answers -- --ignored --test-threads=1
        exit
    fi
    sleep 0.2
done
echo "the servers did not come up" >&2
exit 1
