"""Checks that a checkpoint is a causal language model and was read whole.

transformers will load nearly anything as one: a BERT that sees future tokens, the
decoder half of a BART, a Llama whose head is missing and made up of random numbers.
Each gives logits, and none of them mean anything. So three looks, from the cheapest on:
the configuration before the weights are read, the report of the loading, and the
behaviour of the loaded model. torch and transformers are imported when first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.text import visible

_INSTEAD = "give a causal language model (a GPT, Llama or Qwen kind)"

_OTHER_HEADS = {
    "ForMaskedLM": "a masked language model: it fills gaps and sees the tokens after them",
    "ForPreTraining": "a pre-training model: it has no head of its own for the next token",
    "ForSequenceClassification": "a classifier: it has no head that gives the next token",
    "ForTokenClassification": "a token classifier: it has no head that gives the next token",
    "ForQuestionAnswering": "a span extractor: it has no head that gives the next token",
    "ForMultipleChoice": "a classifier: it has no head that gives the next token",
    "EncoderModel": "an encoder: it has no head that gives the next token",
}


class ModelError(Exception):
    """A model cannot be had or used; the message is one line: what is wrong, what to do.

    Names out of a model's own files stand in it, so it is made safe for a terminal.
    """

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


def inspect_config(config: Any, name: str, *, remote_code: bool = False) -> None:
    """Refuse, by name and reason, what is not a causal language model.

    `config` is a transformers configuration or the bare contents of a config.json,
    which lack the defaults of their class: then only what is written there counts.
    `remote_code`: the repository's own code was allowed, so transformers need not know
    the model. Raises ModelError.
    """
    bare = isinstance(config, Mapping)
    get = config.get if bare else lambda key, default=None: getattr(config, key, default)
    architectures = [str(a) for a in get("architectures") or ()]
    called = f"{name} ({', '.join(architectures) or get('model_type') or 'no architecture'})"
    if get("is_encoder_decoder", False):
        raise ModelError(
            f"{called} is an encoder-decoder model: it reads the prompt with one half and "
            f"writes with the other; {_INSTEAD}"
        )
    for architecture in architectures:
        for ending, what in _OTHER_HEADS.items():
            if architecture.endswith(ending):
                raise ModelError(f"{called} is {what}; {_INSTEAD}")
    if not remote_code:
        _inspect_type(str(get("model_type") or ""), get, called, bare)


def _inspect_type(model_type: str, get: Any, called: str, bare: bool) -> None:
    from transformers.models.auto import modeling_auto as auto

    causal = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if model_type not in causal:
        if bare and get("auto_map"):
            return  # whoever loads it will know more
        raise ModelError(f"{called} is not a model that transformers runs causally; {_INSTEAD}")
    if model_type == "xlnet" or (
        # These families are encoders first: without the word for it in their
        # configuration, every position attends to the tokens after it.
        model_type in masked and not get("is_decoder", False) and not get("causal", False)
    ):
        raise ModelError(
            f"{called} is not set up to be causal (is_decoder is not true): every position "
            f"would see the tokens after it; {_INSTEAD}"
        )


def check_loaded(info: Mapping[str, Any], name: str) -> None:
    """Refuse a model some of whose weights are made up.

    `info` is what `from_pretrained(..., output_loading_info=True)` reports. A head that
    is tied to the embeddings is not missing; one that the file lacks was filled with
    random numbers. Raises ModelError.
    """
    missing = sorted(info.get("missing_keys") or ())
    mismatched = sorted(info.get("mismatched_keys") or ())
    if errors := info.get("error_msgs"):
        raise ModelError(f"{name} did not load whole: {first_line(errors[0])}")
    if mismatched:
        key, stored, wanted = mismatched[0]
        raise ModelError(
            f"{name} does not fit its config.json: {key} is {tuple(stored)} in the file and "
            f"{tuple(wanted)} in the model{_more(mismatched)}"
        )
    heads = [key for key in missing if "lm_head" in key or "embed_out" in key]
    if heads:
        raise ModelError(
            f"{name} has no output head: {heads[0]} is not in its weights and is not tied to "
            f"the embeddings, so its next-token scores would be random; {_INSTEAD}"
        )
    if missing:
        raise ModelError(
            f"{name} is incomplete: {missing[0]} is not in its weights{_more(missing)} and "
            "would be random; fetch the model again"
        )


def check_causal(model: Any, name: str) -> None:
    """Refuse a loaded model whose score at a position depends on a later token.

    Two passes over three tokens that differ only in the last; the scores at the first
    position must be the same (for a causal model they are, to the bit, up to the order
    in which a kernel adds). Raises ModelError.
    """
    import torch

    width = int(model.get_input_embeddings().weight.shape[0])
    ids = [min(n, width - 1) for n in (1, 2, 3, 4)]
    with torch.inference_mode():
        first, other = (
            model(torch.tensor([[ids[0], ids[1], last]], device=model.device)).logits[0, 0].float()
            for last in (ids[2], ids[3])
        )
    tolerance = 1e-5 if model.dtype == torch.float32 else 1e-2
    moved, scale = float((first - other).abs().max()), float(first.abs().max())
    if moved > tolerance * max(scale, 1e-6):
        raise ModelError(
            f"{name} is not causal: changing a token changed the scores before it "
            f"(by {moved:.2g}); {_INSTEAD}"
        )


def first_line(error: object) -> str:
    """The first line of an error that says something, without a full stop."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line.rstrip(". ") for line in lines if line), type(error).__name__)


def _more(keys: Iterable[Any]) -> str:
    count = len(list(keys)) - 1
    return f" (and {count} more)" if count else ""
