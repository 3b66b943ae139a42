"""Cost of a GGUF file's quantisation in llama.cpp: distance from the same weights in float16.

    python bench/quantisation.py [--model FILE.gguf] [--types q8_0,q4_0] [--keep FOLDER]

The file's weights are written anew in float16, and from these in each of ``--types``; without
``--model`` it is the default model's own file. ``llm-inspect diff-engines`` then compares each with
float16 on the prompts below: the float16 file writes greedily, the other reads the same tokens. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gguf import (
    GGMLQuantizationType,
    GGUFReader,
    GGUFValueType,
    GGUFWriter,
    LlamaFileType,
    dequantize,
    quantize,
)

from engine.models.bundled import DEFAULT, bundled_file

PROMPTS = (
    "The capital of France is",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n",
    "Once upon a time, in a small village by the sea,",
)
FLOAT16 = "f16"


def main() -> None:
    """Write the files, compare them, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--types", default="q8_0,q4_0", help="beside the file's own and float16")
    parser.add_argument("--max-tokens", default="50")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--keep", type=Path, help="folder for the files that are written")
    given = parser.parse_args()
    source = given.model or bundled_file(DEFAULT, lambda *_: None, offline=True)
    options = ("--max-tokens", given.max_tokens, "--threads", given.threads)
    with tempfile.TemporaryDirectory() as folder:
        kept = given.keep or Path(folder)
        plain = written(source, FLOAT16, kept)
        found = {"the file itself": compared(plain, source, options)}
        for name in filter(None, given.types.split(",")):
            found[name] = compared(plain, written(plain, name, kept), options)
    print(f"{'weights':<16}{'MB':>7}{'KL mean':>10}{'KL max':>10}{'flips':>12}{'tokens/s':>10}")
    for name, row in found.items():
        flips = f"{row['flips']} of {row['tokens']}"
        print(
            f"{name:<16}{row['file_bytes'] / 1e6:>7.0f}{row['mean_kl']:>10.2g}"
            f"{row['max_kl']:>10.2g}{flips:>12}{row['tps_ratio']:>9.2f}x"
        )
    print(json.dumps(found))


def written(source: Path, name: str, folder: Path) -> Path:
    """Write the file's matrices in the type ``name``; vectors stay in float32."""
    kind = GGMLQuantizationType[name.upper()]
    reader = GGUFReader(source)
    path = folder / f"{source.name.split('.')[0]}.{name}.gguf"
    writer = GGUFWriter(path, str(reader.fields["general.architecture"].contents()))
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type(LlamaFileType[f"MOSTLY_{name.upper()}"])
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def compared(plain: Path, other: Path, options: Sequence[str]) -> dict[str, Any]:
    """Figures of ``diff-engines`` over all prompts; speed is that of plain decode steps."""
    runs = [_diff(prompt, plain, other, options) for prompt in PROMPTS]
    pairs = [pair for run in runs for pair in run["positions"]]
    kls = [pair["kl"]["low"] for pair in pairs]
    return {
        "file_bytes": other.stat().st_size,
        "mean_kl": statistics.fmean(kls),
        "max_kl": max(kls),
        "flips": sum(run["flips"] for run in runs),
        "tokens": len(pairs),
        "exact": all(run["exact"] for run in runs),
        "step_ms": [(run["a"]["step_ms"], run["b"]["step_ms"]) for run in runs],
        "tps_ratio": statistics.median(run["b"]["tps"] / run["a"]["tps"] for run in runs),
    }


def _diff(prompt: str, one: Path, other: Path, options: Sequence[str]) -> Mapping[str, Any]:
    sides = [w for path in (one, other) for w in ("--engine", "llamacpp", "--model", str(path))]
    command = [sys.executable, "-m", "inspector", "diff-engines", prompt, "--format", "json"]
    done = subprocess.run([*command, *options, *sides], stdout=subprocess.PIPE, check=True)
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
