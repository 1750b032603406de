"""Knobs: environment, context manager, update; threads; the configuration token."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import steno
from steno import _native
from steno.core.config import KNOBS, config, documentation


def run(code: str, **env: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path), **env})
    return (done.stdout + done.stderr).strip()


def test_update_and_context():
    assert config.jax_enable_x64 is False
    with steno.enable_x64():
        assert config.jax_enable_x64 is True and config.read("steno_enable_x64") is True
        with steno.enable_x64(False):
            assert config.jax_enable_x64 is False
        assert config.jax_enable_x64 is True
    config.update("jax_enable_x64", True)
    try:
        assert config.values["jax_enable_x64"] is True
    finally:
        config.update("jax_enable_x64", False)
    assert config.jax_enable_x64 is False


def test_wrong_names_and_values():
    with pytest.raises(AttributeError, match="Unrecognized config option: foo"):
        config.update("foo", 1)
    with pytest.raises(AttributeError, match="'Config' object has no attribute 'jax_foo'"):
        config.jax_foo  # noqa: B018
    with pytest.raises(ValueError, match="'allow', 'warn', 'raise'"):
        config.update("jax_numpy_rank_promotion", "a")
    with pytest.raises(ValueError, match="must be a bool"):
        config.update("jax_enable_x64", "a")


def test_decorator():
    @steno.enable_x64(True)
    def f():
        """Doc."""
        return config.jax_enable_x64

    assert f() is True and f.__name__ == "f" and f.__doc__ == "Doc." and config.jax_enable_x64 is False


def test_an_override_is_its_threads_own():
    seen = []
    with steno.enable_x64():
        t = threading.Thread(target=lambda: seen.append(config.jax_enable_x64))
        t.start()
        t.join()
    assert seen == [False]


def test_tokens_follow_the_knobs_that_change_programs():
    plain = _native.config_token(), _native.global_config_token()
    with steno.enable_x64():
        assert (_native.config_token(), _native.global_config_token()) != plain
        with steno.log_compiles():
            inside = _native.config_token()
        assert inside == _native.config_token()
    assert (_native.config_token(), _native.global_config_token()) == plain
    config.update("jax_numpy_rank_promotion", "warn")
    try:
        assert _native.global_config_token() != plain[1]
        other = []
        t = threading.Thread(target=lambda: other.append(_native.global_config_token()))
        t.start()
        t.join()
        assert other == [_native.global_config_token()]
    finally:
        config.update("jax_numpy_rank_promotion", "allow")
    assert (_native.config_token(), _native.global_config_token()) == plain


@pytest.mark.parametrize("name", ["JAX_ENABLE_X64", "STENO_ENABLE_X64"])
def test_environment(name):
    code = "import steno; print(steno.config.jax_enable_x64)"
    assert run(code, **{name: "1"}) == "True"
    assert run(code, **{name: "false"}) == "False"
    assert f"environment variable {name}='maybe'" in run(code, **{name: "maybe"})


def test_every_knob_says_what_it_is():
    assert all(k.doc for k in KNOBS.values())


def test_documentation_is_up_to_date():
    page = Path(__file__).parents[1] / "docs" / "configuration.md"
    assert documentation() in page.read_text(), "run: python -c 'from steno.core.config import documentation; print(documentation())'"
