"""Our `adam-dqn` on Atari against Stable-Baselines3's DQN, the same work, in one run, on a CPU.

    python benchmarks/compare_atari.py --sb3 PYTHON [--rounds 3]

The two take turns; the median of the rounds counts. Both: the paper's network, batch 32, one
gradient step for every 4 agent steps, ε = 0.01, a replay of 20,000. Ours steps 40 environments
and then learns 10 times; theirs steps one 4 times and learns once. How PYTHON is set up:
peers/README.md.
"""

import argparse
import statistics
import sys

from compare_peers import HERE, last_json

OURS = (
    "-m munchausen bench adam-dqn --env atari/Breakout --json --seconds 15 --envs 40 "
    "--capacity 20000 --warmup-steps 400 --epsilon-decay-steps 1"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sb3", metavar="PYTHON", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ours, theirs = [], []
    for i in range(options.rounds):
        ours.append(last_json([sys.executable, *OURS.split()], HERE)["training"])
        peer = [options.sb3, "sb3_atari.py", "--steps", "800"]
        theirs.append(last_json(peer, HERE / "peers")["frames_per_second"])
        print(f"round {i + 1}: ours {ours[-1]:,} frames/s, SB3 {theirs[-1]:,} frames/s", flush=True)
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"median: ours is {ratio:.2f} times Stable-Baselines3")


if __name__ == "__main__":
    main()
