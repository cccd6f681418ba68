#!/usr/bin/env bash
# Runs the tests that need a real model. They start and kill llama.cpp servers of their own.
set -euo pipefail
cd "$(dirname "$0")/../.."
export FOREBAY_VENV=${FOREBAY_VENV:-$PWD/examples/local-model/.venv}
./examples/local-model/start.sh --install
cargo test --locked --test a_real_model_answers -- --ignored --test-threads=1 --nocapture
