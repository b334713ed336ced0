"""Checkpoints: exact, whole or not at all, and damage is found before it is used."""

import json
import os
import pickle
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from munchausen._src.errors import UserError
from munchausen._src.experiment import checkpoint
from munchausen._src.experiment.checkpoint import (
    CHECKPOINTS,
    list_checkpoints,
    read_checkpoint,
    read_latest,
    write_checkpoint,
)

FILES = ("state.safetensors", "manifest.json")


class State(NamedTuple):
    network: dict
    key: jax.Array
    keys: jax.Array
    frames: jax.Array
    head: jax.Array
    kinds: jax.Array
    returns: np.ndarray


def make_state(seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    odd = jnp.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, np.float32(1) / 3])
    return State(
        network={"weight": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32), "bias": odd},
        key=jax.random.key(seed),
        keys=jax.random.split(jax.random.key(seed + 1), 6).reshape(2, 3),
        frames=jnp.asarray(rng.random((5, 3, 7)) < 0.5),  # 105 bits: the last byte is not full
        head=jnp.array([-7, 2**31 - 1], jnp.int32),
        kinds=jnp.asarray(rng.integers(0, 255, (2, 0, 3)), jnp.uint8),
        returns=rng.normal(size=4),  # float64, as the host keeps it
    )


def bits(tree) -> list[tuple]:
    leaves = [
        jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        for x in jax.tree.leaves(tree)
    ]
    return [(str(x.dtype), x.shape, np.asarray(x).tobytes()) for x in leaves]


def shapes(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


@pytest.fixture
def two(tmp_path):
    """Two checkpoints, 1 and 2, that tell themselves apart."""
    for step in (1, 2):
        write_checkpoint(tmp_path, step, make_state(step), {"step": step})
    return tmp_path


def assert_falls_back(folder: Path, match: str = "trying the one before it") -> None:
    with pytest.warns(UserWarning, match=match):
        found = read_latest(folder, make_state())
    assert found.counters == {"step": 1}
    assert bits(found.state) == bits(make_state(1))


class TestRoundTrip:
    def test_is_exact(self, tmp_path):
        state = make_state()
        counters = {"step": 3, "seconds": 0.1 + 0.2, "accounts": [{"recent": [1.5, None]}]}
        place = write_checkpoint(tmp_path, 3, state, counters)
        found = read_checkpoint(place, make_state(seed=9))
        assert found.counters == counters
        assert jax.tree.structure(found.state) == jax.tree.structure(state)
        assert bits(found.state) == bits(state)
        assert isinstance(found.state.returns, np.ndarray)
        # The keys are keys again, and draw what they would have drawn.
        assert jax.random.bits(found.state.key) == jax.random.bits(state.key)

    def test_shapes_are_template_enough(self, tmp_path):
        state = make_state()._replace(returns=np.zeros(4, np.float32))
        place = write_checkpoint(tmp_path, 3, state, {})
        assert bits(read_checkpoint(place, shapes(state)).state) == bits(state)

    @pytest.mark.parametrize("scalar", [np.int32(-7), np.float32(0.1)])
    def test_scalars(self, tmp_path, scalar):
        place = write_checkpoint(tmp_path, 0, [scalar], {})
        assert bits(read_checkpoint(place, [scalar]).state) == bits([scalar])

    @given(
        arrays=st.lists(
            hnp.arrays(
                st.sampled_from([np.bool_, np.int32, np.uint8, np.uint32, np.float32]),
                hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5),
            ),
            max_size=4,
        )
    )
    @settings(deadline=None, max_examples=40)
    def test_any_arrays(self, arrays):
        with tempfile.TemporaryDirectory() as name:
            place = write_checkpoint(Path(name), 0, arrays, {})
            template = [np.zeros_like(x) for x in arrays]
            assert bits(read_checkpoint(place, template).state) == bits(arrays)


class TestDamage:
    @pytest.fixture(scope="class")
    @staticmethod
    def both(tmp_path_factory):
        """As `two`, for many examples: each puts back what it damaged."""
        folder = tmp_path_factory.mktemp("damage")
        for step in (1, 2):
            write_checkpoint(folder, step, make_state(step), {"step": step, "scores": [0.25]})
        return folder

    @pytest.mark.parametrize("file", FILES)
    @given(data=st.data())
    @settings(deadline=None, max_examples=80)
    def test_one_altered_byte(self, both, file, data):
        path = list_checkpoints(both)[-1] / file
        original = path.read_bytes()
        position = data.draw(st.integers(0, len(original) - 1))
        altered = bytearray(original)
        altered[position] ^= data.draw(st.integers(1, 255))
        if file == "manifest.json" and same_json(bytes(altered), original):
            return  # one white space for another says the same
        path.write_bytes(altered)
        try:
            with pytest.warns(UserWarning, match="trying the one before it"):
                found = read_latest(both, make_state())
            assert found.counters["step"] == 1
            assert bits(found.state) == bits(make_state(1))
        finally:
            path.write_bytes(original)

    @pytest.mark.parametrize("file", FILES)
    @given(data=st.data())
    @settings(deadline=None, max_examples=30)
    def test_cut_short(self, both, file, data):
        path = list_checkpoints(both)[-1] / file
        original = path.read_bytes()
        path.write_bytes(original[: data.draw(st.integers(0, len(original) - 1))])
        try:
            with pytest.warns(UserWarning, match="trying the one before it"):
                found = read_latest(both, make_state())
            assert found.counters["step"] == 1
        finally:
            path.write_bytes(original)

    @pytest.mark.parametrize("file", FILES)
    def test_missing_file(self, two, file):
        (list_checkpoints(two)[-1] / file).unlink()
        assert_falls_back(two)

    @pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"sha256": 0}', "\xff"])
    def test_another_manifest(self, two, text):
        (list_checkpoints(two)[-1] / "manifest.json").write_text(text, encoding="latin-1")
        assert_falls_back(two)

    def test_the_state_of_another_step(self, two):
        """Each file is whole; they do not belong together."""
        old, new = list_checkpoints(two)
        (new / "state.safetensors").write_bytes((old / "state.safetensors").read_bytes())
        assert_falls_back(two, match=r"step-000000000002.state\.safetensors was cut or altered")

    def test_none_is_whole(self, two):
        for place in list_checkpoints(two):
            os.truncate(place / "state.safetensors", 10)
        with (
            pytest.warns(UserWarning, match="trying the one before it"),
            pytest.raises(UserError, match=r"no checkpoint of .* is whole; .*--out"),
        ):
            read_latest(two, make_state())

    def test_no_checkpoint_at_all(self, tmp_path):
        assert read_latest(tmp_path, make_state()) is None


def same_json(a: bytes, b: bytes) -> bool:
    try:
        return json.loads(a) == json.loads(b)
    except ValueError:
        return False


class Bomb:
    """Unpickled, it leaves a folder behind."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class TestPickle:
    def test_the_bomb_works(self, tmp_path):
        pickle.loads(pickle.dumps(Bomb(tmp_path / "bang")))
        assert (tmp_path / "bang").exists()

    def test_in_place_of_the_state(self, two):
        bomb = pickle.dumps(Bomb(two / "bang"))
        (list_checkpoints(two)[-1] / "state.safetensors").write_bytes(bomb)
        assert_falls_back(two)
        assert not (two / "bang").exists()

    def test_with_a_manifest_that_vouches_for_it(self, two, monkeypatch):
        """Even where every hash is right, nothing is unpickled."""
        bomb = pickle.dumps(Bomb(two / "bang"))
        with monkeypatch.context() as patched:
            patched.setattr(checkpoint, "save_file", lambda _, path: Path(path).write_bytes(bomb))
            write_checkpoint(two, 2, make_state(2), {"step": 2})
        assert_falls_back(two, match="is damaged")
        assert not (two / "bang").exists()


class TestWriting:
    def test_an_interrupted_one_is_ignored(self, two):
        """No warning either: warnings are errors here."""
        writing = two / CHECKPOINTS / ".writing-000000000003"
        writing.mkdir()
        (writing / "state.safetensors").write_bytes(b"half")
        assert read_latest(two, make_state()).counters == {"step": 2}
        # The step is written after all.
        write_checkpoint(two, 3, make_state(3), {"step": 3})
        assert bits(read_latest(two, make_state()).state) == bits(make_state(3))
        assert not writing.exists()

    def test_an_interrupted_one_is_cleared_away(self, two):
        writing = two / CHECKPOINTS / ".writing-000000000003"
        writing.mkdir()
        write_checkpoint(two, 4, make_state(4), {"step": 4})
        assert not writing.exists()

    def test_a_failed_one_leaves_the_others(self, two, monkeypatch):
        def fail(*_):
            raise OSError("no space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(checkpoint, "save_file", fail)
            with pytest.raises(OSError, match="no space"):
                write_checkpoint(two, 3, make_state(3), {"step": 3})
        assert read_latest(two, make_state()).counters == {"step": 2}

    def test_two_are_kept(self, tmp_path):
        for step in (5, 80, 900, 12_000):
            write_checkpoint(tmp_path, step, make_state(), {"step": step})
        names = [place.name for place in list_checkpoints(tmp_path)]
        assert names == ["step-000000000900", "step-000000012000"]
        assert sorted(p.name for p in (tmp_path / CHECKPOINTS).iterdir()) == names

    def test_the_newest_is_the_furthest_whatever_the_clock_said(self, two):
        """The file system's times went back between the two."""
        old, new = list_checkpoints(two)
        os.utime(old, (2_000_000_000, 2_000_000_000))
        os.utime(new, (1_000_000_000, 1_000_000_000))
        assert read_latest(two, make_state()).counters == {"step": 2}
        write_checkpoint(two, 3, make_state(3), {"step": 3})
        assert [p.name for p in list_checkpoints(two)] == ["step-000000000002", "step-000000000003"]

    def test_a_step_written_again_is_replaced(self, two):
        write_checkpoint(two, 2, make_state(7), {"step": 2})
        assert bits(read_latest(two, make_state()).state) == bits(make_state(7))
        assert len(list_checkpoints(two)) == 2


class TestAnotherAgent:
    """Whole, but not of this run: refused by the name of the leaf that does not fit."""

    def test_a_leaf_of_another_shape(self, two):
        template = make_state()
        template.network["weight"] = jnp.zeros((3, 5))
        with pytest.raises(UserError, match=r"weight.*\[3, 4\].*\[3, 5\].*another agent"):
            read_latest(two, template)

    def test_a_leaf_of_another_type(self, two):
        with pytest.raises(UserError, match=r"\.head.*int32.*float32"):
            read_latest(two, make_state()._replace(head=jnp.zeros(2)))

    def test_frames_of_another_size(self, two):
        with pytest.raises(UserError, match=r"\.frames"):
            read_latest(two, make_state()._replace(frames=jnp.zeros((5, 3, 8), bool)))

    def test_a_leaf_that_is_not_there(self, two):
        template = make_state()
        template.network["embedding"] = jnp.zeros(2)
        with pytest.raises(UserError, match=r"has no \.network\['embedding'\]"):
            read_latest(two, template)
