"""Virtual environments for the peers, and processes in them that answer questions within a time
limit.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CACHE = HERE.parent / ".bench-cache"
STARTUP = 180.0  # seconds in which a library must have been imported
MEMORY = 8 * 2**30


def install(library: str) -> tuple[Path | None, str]:
    """The Python of an environment with this peer, made if need be; or None and the reason why
    there is none.
    """
    folder, wanted = CACHE / "environments" / library, HERE / f"requirements-{library}.txt"
    python, done = folder / "bin" / "python", folder / "installed.txt"
    if done.exists() and done.read_text() == wanted.read_text():
        return python, ""
    print(f"installing {library} …", file=sys.stderr, flush=True)
    venv.EnvBuilder(clear=True, with_pip=True).create(folder)
    run = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or [
            "pip failed"
        ]
        return None, lines[0].removeprefix("ERROR: ")[:200]
    done.write_text(wanted.read_text())
    return python, ""


@dataclass
class Library:
    """A peer (or unskew itself) behind a process that is started when first asked and killed when
    it outlives a limit.
    """

    name: str
    python: Path
    versions: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    warm: set[tuple[str, str]] = field(default_factory=set)

    def ask(
        self, method: str, source: Path, limit: float
    ) -> tuple[dict[str, Any], np.ndarray | None]:
        """The answer, and the weights if there are any."""
        failure = self._start()
        if failure:
            return failure, None
        with tempfile.NamedTemporaryFile(suffix=".npy") as output:
            answer = self._exchange(
                {"method": method, "input": str(source), "output": output.name}, limit
            )
            return answer, np.load(output.name) if "seconds" in answer else None

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None
        self.warm = set()

    def _start(self) -> dict[str, Any]:
        if self.process is not None and self.process.poll() is None:
            return {}
        self.stop()
        threads = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
        )
        self.process = subprocess.Popen(
            [str(self.python), str(HERE / "weights_worker.py"), self.name],
            env={
                **os.environ,
                **threads,
                "TF_NUM_INTRAOP_THREADS": "1",
                "TF_NUM_INTEROP_THREADS": "1",
            },
            preexec_fn=_confine,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        hello = self._read(STARTUP)
        self.versions = hello.get("ready", {})
        return {} if self.versions else hello

    def _exchange(self, question: dict[str, Any], limit: float) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self._read(limit)

    def _read(self, limit: float) -> dict[str, Any]:
        """One line; a process that is silent for too long is killed, and one that died says how."""
        assert self.process is not None
        assert self.process.stdout is not None
        begin = time.monotonic()
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self.process.wait() if ready else None
        self.stop()
        return (
            {"died": f"exit code {code}"}
            if ready
            else {"timeout": round(time.monotonic() - begin, 1)}
        )


def _confine() -> None:
    """One core for every library, so that times compare; limited memory, so that a method fails and
    not the machine.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def libraries(names: tuple[str, ...]) -> tuple[dict[str, Library], dict[str, str]]:
    """Libraries by name, and the peers that could not be installed with the reason."""
    libraries = {"unskew": Library("unskew", Path(sys.executable))}
    missing = {}
    for name in names:
        python, reason = install(name)
        if python is None:
            missing[name] = reason
        else:
            libraries[name] = Library(name, python)
    return libraries, missing
