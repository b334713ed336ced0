"""The folder of compiled programs: where it is, and that it does not grow for ever."""

import os

import jax
import pytest

from munchausen import Agent
from munchausen._src.kernels.program_cache import prune, use_program_cache


def entry(folder, name, *, size, used):
    path = folder / name
    path.write_bytes(b"x" * size)
    os.utime(path, (used, used))
    return path


def test_those_not_used_for_longest_go_first(tmp_path):
    old = entry(tmp_path, "jit_old-1-cache", size=40, used=1_000)
    middle = entry(tmp_path, "jit_middle-2-cache", size=40, used=2_000)
    new = entry(tmp_path, "jit_new-3-cache", size=40, used=3_000)
    other = entry(tmp_path, "notes.txt", size=500, used=1)
    prune(tmp_path, 120)
    assert old.exists()
    prune(tmp_path, 119)
    assert (old.exists(), middle.exists(), new.exists()) == (False, True, True)
    prune(tmp_path, 10)
    assert not middle.exists()
    assert not new.exists()
    assert other.exists()  # not a program


def test_a_folder_that_is_not_there_has_nothing_to_delete(tmp_path):
    prune(tmp_path / "none", 0)


@pytest.fixture
def kept_configuration():
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.usefixtures("kept_configuration")
def test_the_folder_is_the_users(tmp_path, monkeypatch):
    monkeypatch.delenv("MUNCHAUSEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    use_program_cache()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "munchausen" / "jax")
    monkeypatch.setenv("MUNCHAUSEN_CACHE_DIR", str(tmp_path / "own"))
    use_program_cache()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
    monkeypatch.setenv("MUNCHAUSEN_CACHE_DIR", "")
    use_program_cache()  # leaves JAX as it is
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
    monkeypatch.delenv("MUNCHAUSEN_CACHE_DIR")
    use_program_cache()  # as JAX's own variable would have set it
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")


@pytest.mark.usefixtures("kept_configuration")
def test_an_agent_in_python_keeps_its_programs_too(tmp_path, monkeypatch):
    monkeypatch.delenv("MUNCHAUSEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    Agent("m-dqn", env="gym/CartPole-v1")
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "munchausen" / "jax")
