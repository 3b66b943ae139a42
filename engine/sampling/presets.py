"""The presets: orders and rules of real stacks, each named with the source it was read from.

Rules are where equal dials part: what becomes of ties, whether a border belongs to the set, what
temperature 0 means, which tokens count. ``bench`` or a screen that shows a preset shows
``stack``, because stacks change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.sampling.stages import Border, Over, Scale, Ties


@dataclass(frozen=True)
class Preset:
    """The order of a real stack's stages, the values it uses when nobody sets them, its rules.

    ``core`` stages are in the chain even when they are off. ``lacks`` names dials that this stack
    does not have. ``orders`` holds other orders, used when the dial they go with is on.
    ``greedy_alone`` says that temperature 0 leaves out every stage that only serves sampling.
    ``from_config`` names the dials it takes from generation_config.json (None: all).
    ``words_with_space``: a bad word in writing is forbidden with a space before it too.
    """

    name: str
    title: str
    stack: str
    order: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    core: tuple[str, ...] = ("temperature", "top_k", "top_p")
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults_source: str = "library default"
    from_config: frozenset[str] | None = None
    greedy_alone: bool = True
    words_with_space: bool = False
    notes: tuple[str, ...] = ()


_LOGITS = (
    "logit_bias",
    "bad_words",
    "suppress",
    "min_new_tokens",
    "no_repeat_ngram",
    "penalties",
    "dry",
    "allowed",
    "grammar",
)
_DYNAMIC = frozenset({"dynatemp_range", "dynatemp_exponent"})
_OPENAI = frozenset({"frequency_penalty", "presence_penalty"})
_LAST_N = frozenset({"penalty_last_n"})
_MIN_KEEP = frozenset({"min_keep"})
_SERVED = frozenset({"repetition_penalty", "temperature", "top_k", "top_p", "min_p"})

_GUIDE = Preset(
    "guide",
    "the teaching order",
    "llm-inspect's own",
    (
        *_LOGITS,
        "temperature",
        "top_n_sigma",
        "top_k",
        "top_p",
        "min_p",
        "typical",
        "top_h",
        "epsilon",
        "eta",
        "xtc",
        "mirostat",
    ),
    {"temperature": 0.8, "top_k": 40, "top_p": 0.95},
    defaults_source="preset default",
    greedy_alone=False,
    notes=("Rules are those of transformers.",),
)

_HF = Preset(
    "hf",
    "transformers generate",
    "transformers 5.24, generate() with do_sample=True",
    (
        "logit_bias",
        "penalties",
        "no_repeat_ngram",
        "bad_words",
        "min_new_tokens",
        "suppress",
        "grammar",
        "temperature",
        "top_h",
        "top_k",
        "top_p",
        "min_p",
        "typical",
        "epsilon",
        "eta",
    ),
    {"temperature": 1.0, "top_k": 50, "top_p": 1.0},
    lacks=_DYNAMIC | _OPENAI | _LAST_N | _MIN_KEEP,
    notes=(
        "top_k=50 is the library's silent default whenever it samples and nobody set top_k.",
        "temperature=0 stands for do_sample=False: its class refuses 0.",
        "top_k=-1 is read as 0, off, as other stacks do; its class refuses both.",
        "Which of several equal tokens top-p cuts depends on torch.sort; here the lowest ids go.",
    ),
)

_VLLM = Preset(
    "vllm",
    "vLLM V1 sampler",
    "vLLM V1 (sampler.py at 3e34265, topk_topp_sampler.py at 01fa3fe), its PyTorch path",
    (
        "allowed",
        "bad_words",
        "min_new_tokens",
        "logit_bias",
        "penalties",
        "grammar",
        "temperature",
        "min_p",
        "top_k",
        "top_p",
    ),
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
    rules={
        "temperature": {"floor": 0.01},
        "bad_words": {"over": Over.OUTPUT, "spare_stops": False},
    },
    lacks=_DYNAMIC | _LAST_N | _MIN_KEEP,
    from_config=_SERVED,
    words_with_space=True,
    notes=(
        "0 < temperature < 0.01 is raised to 0.01 (SamplingParams), 0 is greedy.",
        "The PyTorch path serves requests with a seed; FlashInfer's kernels may keep other ties.",
    ),
)

_LLAMACPP = Preset(
    "llamacpp",
    "llama.cpp default chain",
    "llama.cpp at 00efb3e (src/llama-sampler.cpp, common/sampling.cpp)",
    (
        "grammar",
        "logit_bias",
        "penalties",
        "dry",
        "top_n_sigma",
        "top_k",
        "typical",
        "top_p",
        "min_p",
        "xtc",
        "temperature",
        "mirostat",
    ),
    {
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "temperature": 0.8,
        "penalty_last_n": 64,
        "dry_breakers": "'\\n', ':', '\"', '*'",
    },
    core=("top_k", "top_p", "min_p", "temperature"),
    rules={
        "penalties": {"counts_in": Over.ALL},
        "top_k": {"ties": Ties.EXACT},
        "top_p": {"border": Border.REACH},
        "min_p": {"scale": Scale.LOGIT},
        "typical": {"ties": Ties.EXACT},
    },
    from_config=frozenset(),
    greedy_alone=False,
    notes=(
        "temperature=0 takes the most likely of the survivors, after every other stage.",
        "Of tokens equal at a border, llama.cpp keeps whichever its sort put first.",
    ),
)

_SGLANG = Preset(
    "sglang",
    "SGLang",
    "SGLang, source of 2026 (layers/sampler.py); borders as sampling_backend=pytorch has them",
    (
        "min_new_tokens",
        "penalties",
        "grammar",
        "logit_bias",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
    ),
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
    rules={
        "temperature": {"greedy_below": 1e-6},
        "penalties": {"repeats_in": Over.OUTPUT, "subtract_first": True},
        "top_k": {"ties": Ties.EXACT},
        "top_p": {"border": Border.EXCEED},
    },
    lacks=_DYNAMIC | _LAST_N | _MIN_KEEP,
    from_config=_SERVED,
    orders={
        "min_p": (
            "min_new_tokens",
            "penalties",
            "grammar",
            "logit_bias",
            "temperature",
            "top_k",
            "top_p",
            "min_p",
        ),
    },
    notes=(
        "top-k and top-p judge one distribution together: top-p, then k of it, is the same set.",
        "With min-p they run in a row, each on the renormalised rest (the FlashInfer path).",
    ),
)

_MLX = Preset(
    "mlx",
    "mlx-lm",
    "mlx-lm at 037c9b3 (sample_utils.py)",
    (
        "logit_bias",
        "penalties",
        "top_p",
        "min_p",
        "xtc",
        "top_k",
        "temperature",
    ),
    {"temperature": 0.0, "penalty_last_n": 20},
    rules={
        "penalties": {"counts_in": Over.ALL},
        "top_k": {"ties": Ties.EXACT},
        "min_p": {"scale": Scale.LOGIT},
        "xtc": {"strict": True, "ties": Ties.KEEP},
    },
    lacks=_DYNAMIC | _MIN_KEEP,
    from_config=frozenset(),
    notes=(
        "temperature is 0, greedy, unless it is set.",
        "Of tokens equal at the k-th place, mlx keeps whichever its partition left there.",
    ),
)

PRESETS: Mapping[str, Preset] = {
    preset.name: preset for preset in (_GUIDE, _HF, _VLLM, _LLAMACPP, _SGLANG, _MLX)
}
DEFAULT_PRESET = "guide"
