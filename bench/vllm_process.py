"""A vLLM server on the CPU, for as long as a bench needs it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator


@contextlib.contextmanager
def serving(python: str, model: str, port: int, *options: str) -> Iterator[str]:
    """The address of a server that ``python``, which has vLLM, runs; its log is on stderr."""
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    command += ["--served-model-name", "m", "--enforce-eager", "--dtype", "float32"]
    command += ["--max-model-len", "1024", "--host", "127.0.0.1", "--port", str(port), *options]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    process = subprocess.Popen(command, env=os.environ | environment, stdout=sys.stderr)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise SystemExit("the server ended")
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/health", timeout=1).close()
                break
            time.sleep(1)
        yield url
    finally:
        process.terminate()
        process.wait()
