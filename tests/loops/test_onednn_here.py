"""Where oneDNN's calls are taken, what is said where they are not, and that they are never kept."""

import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from munchausen.loops import onednn_here
from munchausen.networks import onednn

where_tried = pytest.mark.skipif(
    sys.platform != "linux"
    or platform.machine() != "x86_64"
    or "avx2" not in Path("/proc/cpuinfo").read_text()
    or onednn_here.jaxlib_version not in onednn_here.TRIED,
    reason="not where it was tried",
)


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch):
    for name in ("MUNCHAUSEN_ONEDNN", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    onednn_here.is_here.cache_clear()
    yield
    onednn_here.is_here.cache_clear()


@where_tried
def test_it_is_here():
    """Or each test of it would pass without."""
    assert onednn_here.is_here()


_IN_A_PROCESS_OF_ITS_OWN = """
import sys
import jax, jax.numpy as jnp
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
from munchausen.agent import resolve
from munchausen.loops.compiling import compiled
from munchausen.networks import onednn

def with_calls(x, w):
    assert onednn.is_wanted()
    return onednn.multiply(x, w)

def without(x, w):
    assert not onednn.is_wanted()
    return x @ w

arguments = jnp.ones((3, 40)), jnp.ones((40, 50))
assert float(compiled(with_calls, resolve("dqn", "atari"))(*arguments)[0, 0]) == 40
assert float(compiled(without, resolve("dqn", "minatar"))(*arguments)[0, 0]) == 40
"""


@where_tried
def test_programs_with_calls_are_never_kept(tmp_path):
    """Others are. A warning of JAX's, that it could not keep one, would be an error here."""
    command = [sys.executable, "-W", "error", "-c", _IN_A_PROCESS_OF_ITS_OWN, str(tmp_path)]
    subprocess.run(command, check=True)
    kept = " ".join(path.name for path in tmp_path.iterdir())
    assert "jit_without" in kept
    assert "jit_with_calls" not in kept
    assert "jit_run" not in kept  # those that are tried first


def has(monkeypatch, tmp_path, flags):
    """A processor with these flags, two cores of it, on Linux."""
    lines = [f"processor\t: {i}\nmodel name\t: avx2\nflags\t\t: fpu {flags}\n\n" for i in (0, 1)]
    (tmp_path / "cpuinfo").write_text("".join(lines))
    monkeypatch.setattr(onednn_here, "_PROCESSORS", tmp_path / "cpuinfo")
    monkeypatch.setattr(onednn_here, "sys", SimpleNamespace(platform="linux"))
    monkeypatch.setattr(onednn_here, "platform", SimpleNamespace(machine=lambda: "x86_64"))


def test_other_versions_of_jaxlib_do_without_and_say_so(monkeypatch, tmp_path):
    has(monkeypatch, tmp_path, "avx avx2 fma")
    monkeypatch.setattr(onednn_here, "jaxlib_version", "9.9")
    with pytest.warns(UserWarning, match="jaxlib 9.9 was not tried"):
        assert not onednn_here.is_here()
    assert not onednn_here.is_here()  # asked and said once


@where_tried
def test_a_jaxlib_without_onednn_does_without_and_says_so(monkeypatch):
    """Its XLA knows no such call: an error when the program is compiled."""
    call = onednn._call
    monkeypatch.setattr(onednn, "_call", lambda name, *x: call(f"no_{name}", *x))
    with pytest.warns(UserWarning, match="none that come out right"):
        assert not onednn_here.is_here()


@where_tried
def test_calls_that_come_out_wrong_are_not_taken(monkeypatch):
    call = onednn._call
    monkeypatch.setattr(onednn, "_call", lambda *x: 1.001 * call(*x))
    with pytest.warns(UserWarning, match="none that come out right"):
        assert not onednn_here.is_here()


@pytest.fixture
def right(monkeypatch):
    monkeypatch.setattr(onednn_here, "jaxlib_version", onednn_here.TRIED[0])
    monkeypatch.setattr(onednn_here, "_come_out_right", lambda: True)


@pytest.mark.usefixtures("right")
@pytest.mark.parametrize(
    ("flags", "here"),
    (("avx avx2 fma", True), ("avx2 fma avx512f", True), ("avx fma", False), ("avx2", False)),
)
def test_old_processors_have_none(monkeypatch, tmp_path, flags, here):
    """And none is tried there, as that could end the process."""
    has(monkeypatch, tmp_path, flags)
    assert onednn_here.is_here() == here


@pytest.mark.usefixtures("right")
@pytest.mark.parametrize("name", ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"))
@pytest.mark.parametrize(("limit", "here"), (("AVX", False), ("sse41", False), ("AVX2", True)))
def test_one_that_is_told_to_do_as_an_old_one_has_none(monkeypatch, tmp_path, name, limit, here):
    has(monkeypatch, tmp_path, "avx avx2 fma")
    monkeypatch.setenv(name, limit)
    assert onednn_here.is_here() == here


@pytest.mark.usefixtures("right")
@pytest.mark.parametrize("why", ("MUNCHAUSEN_ONEDNN", "platform", "machine", "flags"))
def test_where_there_is_none_nothing_is_said(monkeypatch, tmp_path, why):
    has(monkeypatch, tmp_path, "avx avx2 fma")
    if why == "MUNCHAUSEN_ONEDNN":
        monkeypatch.setenv("MUNCHAUSEN_ONEDNN", "0")
    elif why == "platform":
        monkeypatch.setattr(onednn_here, "sys", SimpleNamespace(platform="darwin"))
    elif why == "machine":
        monkeypatch.setattr(onednn_here, "platform", SimpleNamespace(machine=lambda: "aarch64"))
    else:
        monkeypatch.setattr(onednn_here, "_PROCESSORS", tmp_path / "none")
    assert not onednn_here.is_here()
