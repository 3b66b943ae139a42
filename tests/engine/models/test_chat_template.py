"""Chat templates as programs of strangers: rendered as transformers does, within limits (B4)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jinja2.exceptions import TemplateRuntimeError

from engine.models.chat_template import MOST_CHARACTERS, SECONDS, TemplateError, TemplateProcess
from tests import tiny_models


@pytest.fixture(scope="module")
def process() -> Iterator[TemplateProcess]:
    started = TemplateProcess()
    started.render("warm", {})
    yield started
    started.close()


ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (ENDLESS, f"did not end within {SECONDS} s"),
        ("{{ 9 ** (9 ** 9) }}", f"did not end within {SECONDS} s"),
        ("{% set x = 'ab' * 9000000 %}{{ x }}", f"more than {MOST_CHARACTERS:,} characters"),
        (
            ENDLESS.replace("{% endfor %}", "{{ 'x' * 999 }}{% endfor %}", 1),
            f"more than {MOST_CHARACTERS:,} characters",
        ),
        ("{{ 'x' * 10 ** 10 }}", "MB of memory"),
        ("{{ '%9999999999d' % 1 }}", "MB of memory"),
        ("{{ '{:9999999999}'.format(1) }}", "MB of memory"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "recursion"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ raise_exception('only one turn') }}", "only one turn"),
        ("{% if %}", "Expected an expression"),
        ("x" * 2_000_000, "2,000,000 characters"),
    ],
)
def test_a_template_that_takes_too_much_ends_with_one_line_and_the_next_is_rendered(
    process: TemplateProcess, template: str, said: str
) -> None:
    """B4: a loop, a giant text, a power, a width: a few seconds of processor, one clear line."""
    before = os.times()
    with pytest.raises(TemplateError) as caught:
        process.render(template, {})
    after = os.times()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    assert spent < SECONDS + 3
    assert process.render("{{ x }}!", {"x": "after"}) == "after!"


def test_a_template_is_rendered_as_transformers_renders_it(process: TemplateProcess) -> None:
    template = (
        "{% set ns = namespace(count=0) %}\n"
        "{% for message in messages %}\n"
        "    {% set ns.count = ns.count + 1 %}\n"
        "    {% if ns.count > 2 %}{% break %}{% endif %}\n"
        "{{ message.role }}: {{ message['content'] | trim }} {{ message | tojson }}"
        "{% generation %}[{{ dict(a=ns.count) | tojson(indent=1) }}]{% endgeneration %}\n"
        "{% endfor %}\n"
        "{{ strftime_now('%Y') }} {{ bos_token }}{{ tools is none }}\n"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    messages = [
        {"role": "system", "content": " <b> & ☕ "},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "third"},
    ]
    tokenizer: Any = tiny_models.tokenizer(template=template)
    theirs = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    variables = {
        **tokenizer.special_tokens_map,
        "messages": messages,
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
    }
    assert process.render(template, variables) == theirs
    assert "third" not in theirs


@pytest.mark.parametrize(
    "template",
    [
        "{% set ns = namespace(__class__=1) %}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{{ messages.append(1) }}",
        "{{ dict.__subclasses__() }}",
    ],
)
def test_what_transformers_sandbox_refuses_is_refused_here_too(
    process: TemplateProcess, template: str
) -> None:
    with pytest.raises((TemplateRuntimeError, TypeError)):
        tiny_models.tokenizer(template=template).apply_chat_template(
            [{"role": "user", "content": "x"}], tokenize=False
        )
    with pytest.raises(TemplateError):
        process.render(template, {"messages": [{"role": "user", "content": "x"}]})


def test_the_process_ends_with_whoever_started_it() -> None:
    code = (
        "from engine.models.chat_template import TemplateProcess as T; p = T(); p.render('', {});"
        "print(p._process.pid, flush=True); import os; os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    child = int(done.stdout)
    for _ in range(1200):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{child}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                return
        time.sleep(0.1)
    pytest.fail("it is still there")


def test_a_prompt_in_an_endless_template_is_one_error_and_the_engine_goes_on() -> None:
    """B4, through the backend: what follows is read as ever."""
    from engine.backends.base import BackendError
    from engine.backends.hf.backend import HFBackend

    backend = HFBackend(tiny_models.llama(), tiny_models.tokenizer(template=ENDLESS), name="tiny")
    with pytest.raises(BackendError) as caught:
        backend.tokenize("abc", chat=True, system=None)
    line = str(caught.value)
    assert line.startswith("the model's chat template refuses this: it did not end")
    assert "--raw" in line
    assert "\n" not in line
    assert len(backend.tokenize("abc", chat=False, system=None).ids) == 3
