"""What the machine has, and what of it a container or a batch system grants."""

import json

import pytest

from munchausen._src.kernels import machine

MEMINFO = "MemTotal:  16000 kB\nMemFree:  100 kB\nMemAvailable:  8000 kB\nHugePages_Total:  0\n"


@pytest.fixture
def available(tmp_path):
    """`available_bytes` where this process is in the cgroup `job/step`."""
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "membership").write_text("12:devices:/elsewhere\n0::/job/step\n")
    (tmp_path / "groups" / "job" / "step").mkdir(parents=True)

    def available():
        return machine.available_bytes(
            tmp_path / "meminfo", tmp_path / "membership", tmp_path / "groups"
        )

    return available


def limit(folder, most, used, cached=0):
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\nfile {cached + 1}\ninactive_file {cached}\n")


def test_without_a_limit_it_is_what_the_machine_has_left(tmp_path, available):
    assert available() == 8_000 * 1024
    limit(tmp_path / "groups" / "job" / "step", "max", 1_000)
    assert available() == 8_000 * 1024


@pytest.mark.parametrize("group", ("job/step", "job", "."))
def test_a_limit_on_the_own_group_or_above_it(tmp_path, available, group):
    limit(tmp_path / "groups" / group, 3_000_000, 1_000_000)
    assert available() == 2_000_000


def test_the_least_counts(tmp_path, available):
    limit(tmp_path / "groups" / "job" / "step", 3_000_000, 1_000_000)
    limit(tmp_path / "groups" / "job", 5_000_000, 4_500_000)
    assert available() == 500_000
    limit(tmp_path / "groups" / "job", 50_000_000, 4_500_000)
    limit(tmp_path / "groups" / "job" / "step", 30_000_000, 4_500_000)
    assert available() == 8_000 * 1024  # the machine's


def test_files_that_were_only_read_take_nothing(tmp_path, available):
    limit(tmp_path / "groups", 3_000_000, 2_900_000, cached=1_000_000)
    assert available() == 1_100_000


def test_more_used_than_granted_leaves_nothing(tmp_path, available):
    limit(tmp_path / "groups", 3_000_000, 3_500_000)
    assert available() == 0


def test_another_group_is_not_ours(tmp_path, available):
    (tmp_path / "groups" / "other").mkdir()
    limit(tmp_path / "groups" / "other", 10, 0)
    assert available() == 8_000 * 1024


def test_where_nothing_says_it_is_a_part_of_the_machine(tmp_path):
    none = tmp_path / "none"
    assert 10**7 < machine.available_bytes(none, none, none) < 10**14


def test_a_cpus_memory_is_what_is_left(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 1234)
    assert machine.device_memory() == 1234


def test_a_run_says_what_it_ran_on():
    here = json.loads(json.dumps(machine.describe()))
    assert here == {"cpus": machine.cores(), "device": "cpu", "backend": "cpu"}


def test_the_real_files_are_read():
    assert 10**8 < machine.available_bytes() < 10**14
