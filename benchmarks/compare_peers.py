"""Our `adam-dqn` against Stable-Baselines3's and Dopamine's DQN, the same work, in one run.

    python benchmarks/compare_peers.py --sb3 PYTHON --dopamine PYTHON [--rounds 3]

`PYTHON` is the interpreter of each peer's environment (see peers/README.md). The three take
turns, so that whatever else the machine does falls on all of them; the table gives the median
of the rounds and our ratio to each. All run at ε = 0.01, where they spend most of a long run.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NETWORKS = {"hidden": "minatar", "linear": "minatar-linear"}


def last_json(command: list[str], folder: Path) -> dict:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sb3", metavar="PYTHON")
    parser.add_argument("--dopamine", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10_000, help="timed steps of each peer")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    options = parser.parse_args()
    peers = {"sb3": options.sb3, "dopamine": options.dopamine}
    for network in options.networks:
        ours = [sys.executable, "throughput.py", "--agent", "adam-dqn", "--seconds", "6", "--set"]
        ours += [f"network={NETWORKS[network]}", "epsilon_decay_steps=1000"]
        runs = {"munchausen": (ours, HERE), "munchausen, --envs 4": ([*ours, "envs=4"], HERE)}
        for name, python in peers.items():
            if python:
                script = [python, f"{name}_dqn.py", "--network", network]
                script += ["--steps", str(options.steps), "--epsilon-decay-steps", "2000"]
                runs[name] = (script, HERE / "peers")
        speeds: dict[str, list[float]] = {name: [] for name in runs}
        for round_ in range(options.rounds):
            for name, (command, folder) in runs.items():
                speed = last_json(command, folder)["steps_per_second"]
                speeds[name].append(speed)
                print(f"{network} round {round_ + 1} {name}: {speed:,.0f} steps/s", flush=True)
        mine = statistics.median(speeds["munchausen"])
        print(f"\nnetwork {network}: median of {options.rounds} rounds")
        for name, values in speeds.items():
            median = statistics.median(values)
            print(f"  {name:<22} {median:>8,.0f} steps/s   ours is {mine / median:.1f} times that")
        print(flush=True)


if __name__ == "__main__":
    main()
