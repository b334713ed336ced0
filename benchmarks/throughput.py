"""Steps per second of the device loop: acting, storing and learning, nothing left out.

    python benchmarks/throughput.py --lanes 1 4 16 64
    python benchmarks/throughput.py --agent adam-dqn --set envs=1 network=minatar-linear

Each line is one program, timed after it was compiled and had passed the warm-up.
"""

import argparse
import json
import time

import jax

from munchausen._src.agents import override, resolve
from munchausen._src.agents.config import LaneSpec
from munchausen._src.loops.device import DeviceLoop
from munchausen._src.suites import find, make_jax


def measure(agent: str, env: str, lanes: int, seconds: float, chunk: int, changes: dict) -> dict:
    config = override(resolve(agent, "minatar"), changes)
    specs = [LaneSpec(agent, seed, config) for seed in range(lanes)]
    loop = DeviceLoop(config, make_jax(find(env)), specs)
    chunk = max(1, chunk // config.group_steps) * config.group_steps
    begun = time.perf_counter()
    state, report = loop.advance(loop.init(), 0, config.warmup_steps)
    report()
    t = config.warmup_steps
    state, report = loop.advance(state, t, chunk)
    report()
    t += chunk
    compiled = time.perf_counter() - begun
    # Once more before the clock starts: the first run of a program still allocates.
    state, report = loop.advance(state, t, chunk)
    report()
    t += chunk
    begun, start, previous = time.perf_counter(), t, None
    while time.perf_counter() - begun < seconds:
        state, report = loop.advance(state, t, chunk)
        t += chunk
        if previous:
            previous()
        previous = report
    last = report()
    elapsed = time.perf_counter() - begun
    rate = (t - start) * lanes / elapsed
    return {
        "agent": agent,
        "env": env,
        "lanes": lanes,
        "envs": config.envs,
        "network": config.network,
        "steps_per_second": round(rate),
        "microseconds_per_update": round(
            elapsed / (t - start) * config.update_period_steps * 1e6, 1
        ),
        "compile_seconds": round(compiled, 1),
        "loss": float(last.loss.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", default="m-dqn")
    parser.add_argument("--env", default="minatar/breakout")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--chunk", type=int, default=1_000, help="steps in one program")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE")
    options = parser.parse_args()
    changes = dict(item.split("=", 1) for item in options.set)
    print(f"# {jax.devices()[0].device_kind}, jax {jax.__version__}", flush=True)
    for lanes in options.lanes:
        row = measure(
            options.agent, options.env, lanes, options.seconds, options.chunk, dict(changes)
        )
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
