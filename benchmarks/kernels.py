"""The GPU kernels of one gradient step, from a machine without a GPU.

    pip install 'munchausen[cuda]' && python benchmarks/kernels.py --agent m-dqn --env atari

XLA compiles the learner for an H200 from a description of one. What it cannot do without the
real one is choose between matrix libraries by trying them: all products are cuBLAS's here. How
the rest is cut into kernels, and what waits for what, is what the GPU runs. Times it cannot tell.
"""

import argparse
import importlib.util
import math
import os
import re
from typing import NamedTuple
from unittest import mock

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from munchausen._src.agents import resolve
from munchausen._src.agents.config import LaneSpec
from munchausen._src.kernels.compiling import OPTIONS
from munchausen._src.loops.lane import first_regulariser, make_steps
from munchausen._src.loops.lanes import over_lanes, side_by_side
from munchausen._src.suites import EnvironmentSpec

H200 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  shared_memory_per_block: 49152 shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 device_memory_size: 151397597184
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 12 minor: 8 }
device_description_str: "NVIDIA H200 141GB HBM3e"
"""

FRAMES = {"atari": ((84, 84), "uint8", 4), "minatar": ((10, 10, 4), "bool", 3)}  # of Breakout
SIZES = {"pred": 1, "u8": 1, "s8": 1, "u32": 4, "s32": 4, "f32": 4}
NO_KERNEL = {"parameter", "constant", "bitcast", "get-tuple-element", "tuple"}


def compile_learner(agent: str, suite: str, lanes: int) -> str:
    """The compiled program of a few updates, as text; the loop is not unrolled."""
    shape, dtype, actions = FRAMES[suite]
    config = resolve(agent, suite)
    spec = EnvironmentSpec(
        name=f"{suite}/breakout",
        frame_shape=shape,
        frame_dtype=dtype,
        actions=actions,
        truncates=suite == "atari",
        scale=1 / 255 if suite == "atari" else 1.0,
    )
    steps = make_steps(config, spec, munchausen=config.alpha != 0)
    regulariser = first_regulariser(LaneSpec(agent, 0, config))
    first = jnp.zeros((config.envs, *shape), dtype)
    one = jax.random.key(0), regulariser, first
    lane = jax.eval_shape(over_lanes(steps.init, lanes), *side_by_side([one] * lanes))

    devices = topologies.get_topology_desc(
        "h200", "cuda", target_config=H200, topology="1x1x1"
    ).devices
    everywhere = NamedSharding(Mesh(devices, ("device",)), PartitionSpec())
    program = jax.jit(
        over_lanes(lambda lane, t: steps.learn(lane, t, updates=7), lanes, shared=1),
        donate_argnums=0,
        in_shardings=everywhere,
        out_shardings=everywhere,
        compiler_options={**OPTIONS["gpu"], "xla_gpu_enable_triton_gemm": False},
    )
    return program.lower(lane, jax.ShapeDtypeStruct((), jnp.int32)).compile().as_text()


class Kernel(NamedTuple):
    name: str
    makes: str  # shapes
    takes: str  # names
    megabytes: float  # of all that, where it may read only a part of something

    def __str__(self) -> str:
        return f"{self.megabytes:7.1f} MB  {self.name:34} {self.makes}  <-  {self.takes}"


def kernels(program: str) -> list[Kernel]:
    """Those of the largest loop's body."""
    parts = {}
    for part in re.split(r"\n(?=%|ENTRY)", program):
        if name := re.match(r"(?:ENTRY )?%([\w.\-]+)", part):
            parts[name[1]] = part
    body = max(re.findall(r"body=%([\w.\-]+)", program), key=lambda name: len(parts[name]))
    found, shapes = [], {}
    for line in parts[body].splitlines()[1:]:
        match = re.match(r"\s+(?:ROOT )?%([\w.\-]+) = (.*?) ([\w\-]+)\((.*?)\)", line)
        if not match:
            continue
        name, shape, operation, operands = match.groups()
        # Without layouts, comments and the libraries' workspace.
        shapes[name] = re.sub(r"\{[^}]*\}|/\*.*?\*/|, s8\[\d+\]", "", shape)
        if operation not in NO_KERNEL:
            takes = re.findall(r"%([\w.\-]+)", operands)
            # A tuple is what its elements were taken from already.
            single = [shapes[x] for x in takes if not shapes[x].startswith("(")]
            megabytes = sum(map(_bytes, [shapes[name], *single])) / 1e6
            found.append(Kernel(name, shapes[name], ", ".join(takes), megabytes))
    return found


def _bytes(shape: str) -> int:
    sizes = [
        math.prod(int(n) for n in dimensions.split(",") if n) * SIZES[kind]
        for kind, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", shape)
    ]
    return sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="m-dqn")
    parser.add_argument("--env", default="atari", choices=FRAMES)
    parser.add_argument("--lanes", type=int, default=1)
    options = parser.parse_args()
    if not importlib.util.find_spec("jax_cuda13_plugin"):
        parser.error("needs JAX's compiler for GPUs: pip install 'munchausen[cuda]'")
    with mock.patch.object(jax, "default_backend", return_value="gpu"):
        found = kernels(compile_learner(options.agent, options.env, options.lanes))
    for kernel in found:
        print(kernel)
    total = sum(kernel.megabytes for kernel in found)
    print(f"{len(found)} kernels an update, {total:,.0f} MB made and taken")


if __name__ == "__main__":
    main()
