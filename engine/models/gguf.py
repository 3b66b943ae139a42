"""GGUF files: what the header says, and turning one into a folder that transformers reads.

The header is read here, in milliseconds and with every length checked, rather than by
the gguf package's reader, which takes seconds for a large vocabulary.
"""

from __future__ import annotations

import errno
import logging
import math
import struct
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from engine.models.build_checks import without_weights
from engine.models.checks import ModelError, check_loaded, first_line, inspect_config
from engine.models.config_checks import check_config
from engine.models.gguf_reader import Reader, TensorInfo, read_settings, read_tensors
from engine.plain_files import check_plain, reason
from engine.progress import Progress

_ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
_COUNTS = ("block_count", "context_length", "embedding_length", "feed_forward_length")
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Header:
    """Metadata and tensor list of a GGUF file.

    `quantisation` is the file's own type ("Q4_K_M") or else that of most weights;
    `elements` counts the numbers in all tensors; `types` the tensors of each type.
    `tokenizer` is its kind ("gpt2" for byte-level BPE, "llama" for SentencePiece), and
    `special` its special tokens' ids by role: bos, eos, unk, pad.
    """

    architecture: str
    name: str
    quantisation: str
    elements: int
    types: dict[str, int]
    tokenizer: str
    special: dict[str, int]


def read_header(path: Path) -> Header:
    """The header of a GGUF file.

    Raises ModelError if it is none, is damaged or cut short, or holds tensors of a type
    that cannot be dequantised (named in the message).
    """
    try:
        size = check_plain(path)
        with path.open("rb") as file:
            return _header(Reader(file, size), file, path, size)
    except (ValueError, OverflowError, RecursionError, struct.error) as error:
        raise ModelError(f"{path} is not a whole GGUF file ({error}): download it again") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {reason(error)}") from error


def _header(reader: Reader, file: BinaryIO, path: Path, size: int) -> Header:
    facts, tensors = read_settings(reader)
    infos = read_tensors(reader, tensors)
    _check_counts(facts, len(infos))
    alignment = facts.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment % 8 or alignment > size:
        raise ValueError(f"an alignment of {alignment!r:.40}")
    data_start = -(-file.tell() // alignment) * alignment
    return _summary(path, facts, infos, size - data_start)


def _check_counts(facts: dict[str, Any], tensors: int) -> None:
    """Refuse sizes that no model has, before a library builds one of them."""
    for key, value in facts.items():
        name = key.rpartition(".")[2]
        if name not in _COUNTS or value is None:
            continue
        if type(value) is not int or not 1 <= value <= _MOST:
            raise ValueError(f"{key} is {value!r:.40}")
        if name == "block_count" and value > tensors:
            raise ValueError(f"{key} is {value:,}, with {tensors:,} tensors")


def _summary(path: Path, facts: dict[str, Any], infos: list[TensorInfo], room: int) -> Header:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType

    elements: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for shape, kind, offset in infos:
        try:
            known = GGMLQuantizationType(kind)
        except ValueError:
            raise _unsupported(path, f"number {kind}") from None
        numbers = math.prod(shape)
        block, block_bytes = GGML_QUANT_SIZES[known]
        if offset + numbers // block * block_bytes > room:
            raise ValueError("its tensors reach past its end")
        elements[known.name] += numbers
        count[known.name] += 1
    for name in count:
        if not _can_dequantise(GGMLQuantizationType[name]):
            raise _unsupported(path, name)
    try:
        quantisation = LlamaFileType(facts["general.file_type"]).name.split("_", 1)[1]
    except (KeyError, ValueError, IndexError):
        quantisation = max(elements, key=elements.__getitem__, default="F32")
    return Header(
        architecture=str(facts.get("general.architecture") or ""),
        name=str(facts.get("general.name") or path.stem),
        quantisation=quantisation,
        elements=sum(elements.values()),
        types=dict(count),
        tokenizer=str(facts.get("tokenizer.ggml.model") or ""),
        special={
            role: facts[key]
            for role, word in _ROLES.items()
            if isinstance(facts.get(key := f"tokenizer.ggml.{word}_token_id"), int)
        },
    )


def _unsupported(path: Path, kind: str) -> ModelError:
    return ModelError(
        f"{path} holds tensors of type {kind}, which cannot be dequantised here: "
        "use another quantisation of the model (Q4_K_M or Q8_0, say)"
    )


def _can_dequantise(kind: Any) -> bool:
    import numpy as np
    from gguf import dequantize
    from gguf.constants import GGML_QUANT_SIZES

    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8), kind)
    except NotImplementedError:
        return False
    return True


# ---------------------------------------------------------------------- conversion


def convert(path: Path, folder: Path, progress: Progress) -> None:
    """Write the model and tokenizer of a GGUF file into `folder`, as float32 safetensors.

    Exact: float32 holds every value that dequantising gives. Raises ModelError for what
    transformers cannot read or what is not a causal language model.
    """
    progress("convert", None, "starting torch")
    quiet()
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    header = read_header(path)
    where = {"gguf_file": path.name, "local_files_only": True}
    try:
        with _watched(progress), tempfile.TemporaryDirectory(prefix="llm-inspect-") as place:
            # By itself: transformers would read a chat template that lies beside it, too.
            alone = Path(place)
            (alone / path.name).symlink_to(path.resolve())
            progress("convert", None, "reading the header")
            config = AutoConfig.from_pretrained(alone, **where)
            inspect_config(config, path.name)
            check_config(config.to_dict(), path)
            _check_sizes(config, header, path)
            progress("convert", None, "reading the tokenizer")
            tokenizer = AutoTokenizer.from_pretrained(alone, **where)
            progress("convert", None, "reading the tensors")
            model, info = AutoModelForCausalLM.from_pretrained(
                alone,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **where,
            )
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"transformers cannot read {path.name}: {first_line(error)}") from error
    check_loaded(info, path.name)
    _true_to(header, tokenizer)
    # What is written is no longer quantised, and must not say that it is.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    progress("convert", None, "writing")
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except OSError:
        raise
    except Exception as error:  # safetensors wraps the system's error in its own
        full = "No space left" in str(error) or "os error 28" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, first_line(error)) from error


def _check_sizes(config: Any, header: Header, path: Path) -> None:
    """Refuse a model of far more numbers than its file holds: they would be made up, for hours."""
    built = sum(one.numel() for one in without_weights(config).parameters())
    if built > 2 * header.elements + 1_000_000:
        raise ModelError(
            f"{path} does not fit its own header: by that the model has {built:,} numbers, and its "
            f"tensors hold {header.elements:,}; download it again"
        )


def _true_to(header: Header, tokenizer: Any) -> None:
    """Make a tokenizer say what its file says.

    Releases of transformers differ in what they make of the same file: 5.17 takes the
    beginning of a turn for the end of a text, and gives byte-level BPE SentencePiece's
    decoder, which loses the bytes of characters that lie across tokens.
    """
    from tokenizers import decoders

    for role, token_id in header.special.items():
        token = tokenizer.convert_ids_to_tokens(token_id)
        if token is not None:
            setattr(tokenizer, f"{role}_token", token)
    if header.tokenizer == "gpt2":
        tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    tokenizer.clean_up_tokenization_spaces = False


@contextmanager
def _watched(progress: Progress) -> Iterator[None]:
    """Send transformers' progress bar over a GGUF file's tensors to `progress`.

    And let it parse the header, which takes it seconds, once rather than three times.
    """
    import gguf as package
    import transformers.modeling_gguf_pytorch_utils as reading

    def counted(tensors: Iterable[Any], **_: Any) -> Iterator[Any]:
        listed = list(tensors)
        for done, tensor in enumerate(listed):
            detail = f"tensor {done + 1} of {len(listed)}"
            progress("convert", done / len(listed), detail)
            yield tensor

    # It calls both by their global names, and offers no other way to be told.
    theirs: Any = package
    bar, reader = reading.tqdm, theirs.GGUFReader
    reading.tqdm, theirs.GGUFReader = counted, lru_cache(reader)
    try:
        yield
    finally:
        reading.tqdm, theirs.GGUFReader = bar, reader


def quiet() -> None:
    """Send what transformers and the hub's client have to say to logging, and no bars.

    The root logger decides what becomes of it. With no handler there it is dropped:
    the screen belongs to somebody else.
    """
    from transformers.utils import logging as theirs

    theirs.disable_progress_bar()  # the hub's client's too
    logging.captureWarnings(True)
    for name in ("transformers", "huggingface_hub", "accelerate", "torch"):
        logger = logging.getLogger(name)
        for handler in list(logger.handlers):
            if type(handler) is logging.StreamHandler:  # theirs, to standard error
                logger.removeHandler(handler)
        logger.propagate = True
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
