"""Rivals by name: who else can decode with the model that is loaded."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from engine.backends.base import BackendError
from engine.commands import Open
from engine.measure import generate, llamacpp_turns
from engine.measure.rival_process import RivalProcess
from engine.models import resolve as models
from engine.models.bundled import DEFAULT, bundled_file
from engine.models.gguf_model import read_model
from engine.progress import Progress
from engine.records.measured import LLAMACPP
from engine.records.model import ModelFacts

_CONTEXT = 8192
"""Positions that llama.cpp is given at most; its own default is all that the model was made for."""


class Generate(RivalProcess):
    """transformers' ``generate()``."""

    def __init__(
        self, folder: Path, device: str = "cpu", *, trust_remote_code: bool = False
    ) -> None:
        """Load the model ``folder`` there. Raises RivalError."""
        trust = str(int(trust_remote_code))
        super().__init__("generate()", generate.__file__, str(folder), device, trust)


class LlamaCpp(RivalProcess):
    """llama.cpp with a .gguf file."""

    def __init__(self, file: Path, dtype: str, context: int = _CONTEXT) -> None:
        """Load ``file`` there. Raises RivalError."""
        self._folder = tempfile.TemporaryDirectory(prefix="llm-inspect-")
        socket = str(Path(self._folder.name) / "llama.sock")
        try:
            super().__init__("llama.cpp", llamacpp_turns.__file__, str(file), socket, str(context))
        except BaseException:
            self._folder.cleanup()
            raise
        self.dtype = dtype

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def rival_of(name: str, opened: Open, facts: ModelFacts, progress: Progress) -> RivalProcess:
    """The rival of that name with the model that ``opened`` names.

    Raises RivalError, BackendError and ModelError.
    """
    progress("load", None, f"the model again, for {name} in a process of its own")
    if name == LLAMACPP:
        return _llamacpp(opened, facts, progress)
    options = opened.options
    resolved = models.resolve(
        options.get("model"), progress, offline=bool(options.get("offline", False))
    )
    return Generate(
        resolved.path, facts.device, trust_remote_code=bool(options.get("trust_remote_code", False))
    )


def _llamacpp(opened: Open, facts: ModelFacts, progress: Progress) -> LlamaCpp:
    if find_spec("xllamacpp") is None:
        raise BackendError(
            "--vs llamacpp needs the package xllamacpp: pip install llm-inspect-tui[llamacpp]"
        )
    named = opened.options.get("model")
    if named is None:
        offline = bool(opened.options.get("offline", False))
        file = bundled_file(DEFAULT, progress, offline=offline)
    else:
        file = Path(str(named)).expanduser()
        if file.suffix.lower() != ".gguf" or not file.is_file():
            raise BackendError("--vs llamacpp runs a .gguf file: give one with --model FILE.gguf")
    context = min(facts.context_length or _CONTEXT, _CONTEXT)
    return LlamaCpp(file, read_model(file).quantisation, context)
