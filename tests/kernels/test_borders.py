"""Nobody but `kernels` asks which machine this is, and nobody reaches into JAX's private parts."""

from pathlib import Path

import munchausen

ROOT = Path(munchausen.__file__).parent


def naming(words):
    files = {path.relative_to(ROOT).as_posix(): path.read_text() for path in ROOT.rglob("*.py")}
    return {name for name, text in files.items() if words in text}


def test_the_machine_is_asked_in_one_file():
    assert naming("default_backend") == {"_src/kernels/dispatch.py"}


def test_nothing_private_of_jax_is_used():
    assert naming("jax") > {"_src/kernels/dispatch.py"}  # files were read
    assert naming("jax._src") == set()
