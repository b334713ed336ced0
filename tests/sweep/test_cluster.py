"""The same sweep on a real Ray cluster: a head and a second node, processes of this test on
loopback, with token authentication on."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.records import is_live, read_records

pytest.importorskip("ray", reason="pip install 'munchausen[ray]'", exc_type=ImportError)

CARTPOLE = [
    *("--agents", "dqn", "--envs", "gym/CartPole-v1", "--together", "1"),
    *("--env-count", "4", "--capacity", "4000", "--warmup-steps", "400", "--batch-size", "16"),
    *("--iteration-steps", "400", "--checkpoint-seconds", "0", "--network", "mlp-small"),
]


def descendants(pid: int) -> list[int]:
    """Of a process of ours, itself first."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has ended
    found = [pid]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def wait_for(condition, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Cluster:
    """Processes of `ray start --block`, stopped by their ids."""

    def __init__(self, folder: Path):
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        }
        self._folder = folder
        self.nodes: list[subprocess.Popen] = []
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            self.port = server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def start_node(self) -> subprocess.Popen:
        if self.nodes:
            where = ["--address", self.address]
        else:
            where = ["--head", "--port", str(self.port), "--include-dashboard", "false"]
        number = len(self.nodes)
        with open(self._folder / f"node{number}.log", "w") as log:
            node = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ray.scripts.scripts", "start", *where, "--block"),
                    *("--node-ip-address", "127.0.0.1", "--num-cpus", "1", "--num-gpus", "0"),
                    *("--object-store-memory", "80000000", "--include-log-monitor", "false"),
                    *("--temp-dir", str(self._folder / f"n{number}")),
                ],
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        self.nodes.append(node)
        return node

    def wait_until_up(self) -> None:
        def answers() -> bool:
            assert self.nodes[0].poll() is None, (self._folder / "node0.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                return False
            return True

        wait_for(answers)

    def lose(self, node: subprocess.Popen) -> None:
        """All of a node's processes at once, as when its power goes."""
        for pid in descendants(node.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        node.wait()

    def close(self) -> None:
        for node in reversed(self.nodes):
            if node.poll() is None:
                self.lose(node)


@pytest.fixture
def cluster():
    # Not pytest's folder: the path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder))
        cluster.start_node()
        try:
            cluster.wait_until_up()
            yield cluster
        finally:
            cluster.close()


def start_sweep(cluster: Cluster, root: Path, *arguments: str) -> subprocess.Popen:
    where = ("--backend", "ray", "--address", cluster.address, "--out", str(root), "--json")
    return subprocess.Popen(
        [sys.executable, "-m", "munchausen", "sweep", *arguments, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment,
    )


def finish(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    return json.loads(out)


def live(root: Path) -> list[Path]:
    """Runs that are trained now and have a checkpoint."""
    places = [p.parent for p in root.glob("*/config.json")]
    return [place for place in places if list_checkpoints(place) and is_live(place)]


def watcher_of(place: Path, cluster: Cluster) -> tuple[int, int]:
    """The Ray worker that watches a run's training, and the training itself."""
    for node in cluster.nodes:
        for pid in descendants(node.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if f"--out={place}".encode() in words:
                stat = Path(f"/proc/{pid}/stat").read_text()
                return int(stat.rsplit(")", 1)[1].split()[1]), pid
    raise AssertionError(f"nobody trains {place}")


def steps_done(place: Path) -> int:
    return int(list_checkpoints(place)[-1].name.removeprefix("step-"))


def rows_of(root: Path) -> Counter:
    return Counter(
        (row["agent"], row["env"], row["seed"], row["step"])
        for path in root.rglob("records.jsonl")
        for row in read_records(path.parent)
    )


def errors(root: Path) -> list[str]:
    lines = (root / "attempts.jsonl").read_text().splitlines()
    return [json.loads(line)["error"] for line in lines]


def test_a_worker_is_killed(tmp_path, cluster):
    process = start_sweep(cluster, tmp_path, *CARTPOLE, "--steps", "6000")
    wait_for(lambda: live(tmp_path) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    [place] = live(tmp_path)
    worker, training = watcher_of(place, cluster)
    os.kill(worker, signal.SIGKILL)
    # What it watched dies with it: nobody else may train the run meanwhile.
    wait_for(lambda: not Path(f"/proc/{training}").exists())
    assert steps_done(place) < 6000
    report = finish(process)
    assert [run["status"] for run in report["runs"]] == ["done"]
    rows = rows_of(tmp_path)
    assert set(rows.values()) == {1}
    assert len(rows) == 6000 // 400
    assert len((place / "machine.jsonl").read_text().splitlines()) == 2
    first, last = errors(tmp_path)
    assert "WorkerCrashedError" in first
    assert last == ""


@pytest.mark.slow  # Ray tries for half a minute
def test_a_stranger_is_refused(tmp_path, cluster):
    """Without the token nobody runs code there."""
    (tmp_path / "token").write_text(secrets.token_hex(32))
    cluster.environment = cluster.environment | {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    root = tmp_path / "sweep"
    process = start_sweep(cluster, root, *CARTPOLE, "--steps", "400")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    assert "can be read by others; chmod 600" in err
    assert "no Ray cluster at" in err, err
    assert out == ""
    assert not root.exists()


@pytest.mark.slow
def test_a_worker_and_a_node_are_lost(tmp_path, cluster):
    second = cluster.start_node()
    process = start_sweep(cluster, tmp_path, *CARTPOLE, "--seeds", "4", "--steps", "8000")
    wait_for(lambda: len(live(tmp_path)) == 2)
    on_second = set(descendants(second.pid))
    watched = {place: watcher_of(place, cluster) for place in live(tmp_path)}
    [mine] = [place for place, (worker, _) in watched.items() if worker not in on_second]
    os.kill(watched[mine][0], signal.SIGKILL)
    wait_for(lambda: len(live(tmp_path)) == 2)
    cluster.lose(second)
    report = finish(process)
    assert [run["status"] for run in report["runs"]] == ["done"] * 4
    rows = rows_of(tmp_path)
    assert set(rows.values()) == {1}
    assert len(rows) == 4 * 8000 // 400
    said = " ".join(errors(tmp_path))
    assert "WorkerCrashedError" in said
    assert "NodeDiedError" in said


@pytest.mark.slow
def test_eight_runs_killed_half_way(tmp_path, cluster):
    """The example of the documentation: the sweep's own process is killed."""
    cluster.start_node()
    names = ("--agents", "dqn,m-dqn", "--envs", "minatar/breakout,minatar/asterix", "--seeds", "2")
    arguments = (*names, "--steps", "20000", "--checkpoint-seconds", "0", "--together", "1")
    process = start_sweep(cluster, tmp_path, *arguments)
    wait_for(lambda: len(list(tmp_path.glob("*/result.json"))) >= 3 and live(tmp_path))
    process.kill()
    process.communicate()
    finished = {p: p.read_bytes() for p in tmp_path.glob("*/result.json")}
    report = finish(start_sweep(cluster, tmp_path, *arguments))
    assert report["done"] == len(report["runs"]) == 8
    assert {path: path.read_bytes() for path in finished} == finished
    rows = rows_of(tmp_path)
    assert set(rows.values()) == {1}
    assert set(Counter(key[:3] for key in rows).values()) == {2}
    assert len({key[:3] for key in rows}) == 8


@pytest.mark.slow
def test_stopped_on_the_cluster(tmp_path, cluster):
    """SIGTERM to the sweep: trainings on the nodes write a checkpoint, and it goes on later."""
    arguments = (*CARTPOLE, "--steps", "8000", "--checkpoint-seconds", "1000")
    process = start_sweep(cluster, tmp_path, *arguments)
    wait_for(lambda: list(tmp_path.glob("*/records.jsonl")))
    [records] = tmp_path.glob("*/records.jsonl")
    wait_for(lambda: records.stat().st_size)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert len(list_checkpoints(records.parent)) == 1
    assert finish(start_sweep(cluster, tmp_path, *arguments))["done"] == 1
    assert set(rows_of(tmp_path).values()) == {1}
