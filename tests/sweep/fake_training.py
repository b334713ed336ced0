"""Stands for `munchausen train` where a test is about those who watch it: a real process that
writes what a run's folder has, and ends as it is told. Without JAX, so that it starts at once.

    fake_training.py FOLDER STEPS SEED,… BEHAVIOUR
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

place, steps, seeds = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(",")
behaviour = sys.argv[4]
place.mkdir(exist_ok=True)
lock = open(place / "lock", "w")  # noqa: SIM115
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
(place / "config.json").write_text("{}")
(place / "result.json").unlink(missing_ok=True)
starts = place / "starts"
with open(starts, "a") as file:
    file.write("start\n")
attempt = len(starts.read_text().splitlines())


def beat(step: int) -> None:
    beat = {"step": step, "steps": steps, "scores": [1.5] * len(seeds), "steps_per_second": 10.0}
    (place / "heartbeat.writing").write_text(json.dumps(beat))
    os.replace(place / "heartbeat.writing", place / "heartbeat.json")


def checkpoint(step: int) -> None:
    (place / "checkpoints" / f"step-{step:012d}").mkdir(parents=True, exist_ok=True)


def stop(*_) -> None:
    checkpoint(steps // 2)
    print("munchausen: stopped by SIGTERM at step 1", file=sys.stderr)
    sys.exit(143)


signal.signal(signal.SIGTERM, stop)
beat(1)
match behaviour:
    case "hang":
        time.sleep(60)
    case "hangs-with-a-child":
        os.fork()  # which holds the lock too
        time.sleep(60)
    case "crash":
        raise RuntimeError("the emulator \x1b[31mbroke [bold]down[/bold]")
    case "die":
        os.kill(os.getpid(), signal.SIGKILL)
    case "diverge":
        (place / "result.json").write_text('{"status": "diverged", "error": "the loss is nan"}')
        sys.exit("munchausen: the loss is nan at step 3; stopped")
    case "mistake":
        print("munchausen: no such thing", file=sys.stderr)
        sys.exit(2)
    case "dies-twice" if attempt <= 2:
        os.kill(os.getpid(), signal.SIGKILL)
    case "dies-five-times-but-gets-on" if attempt <= 5:
        checkpoint(attempt)
        os.kill(os.getpid(), signal.SIGKILL)
    case "lies":
        sys.exit(0)
    case "diverges-together" if len(seeds) > 1:
        sys.exit("munchausen: the loss is nan at step 3; stopped")
lanes = [{"agent": "dqn", "seed": int(seed), "score": 2.5} for seed in seeds]
result = {"status": "finished", "steps": steps, "steps_per_second": 10.0, "lanes": lanes}
with open(place / "records.jsonl", "w") as file:
    for seed in seeds:
        file.write(json.dumps({"seed": int(seed), "step": steps}) + "\n")
(place / "result.json").write_text(json.dumps(result))
