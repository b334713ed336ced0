"""The Python interface: `Agent("m-dqn", env="gym/CartPole-v1").learn(50_000)`."""

import functools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError

from munchausen._src.agents import AgentConfig
from munchausen._src.agents.building import make_actor
from munchausen._src.agents.fields import parse_probability, parse_whole
from munchausen._src.errors import UserError
from munchausen._src.experiment.evaluation import evaluate
from munchausen._src.experiment.folder import create, reopen
from munchausen._src.experiment.policy import (
    Policy,
    environment_spec,
    load_policy,
    load_run,
    save_policy,
)
from munchausen._src.experiment.resources import check
from munchausen._src.experiment.settings import make_settings, round_up
from munchausen._src.experiment.training import Training
from munchausen._src.kernels.compiling import compiled
from munchausen._src.kernels.program_cache import use_program_cache
from munchausen._src.networks import Network
from munchausen._src.progress import show_progress
from munchausen._src.suites import DEFAULT_ENVIRONMENT, import_module_of


class Agent:
    """An agent on an environment, to train, ask and keep.

    Any field of `AgentConfig` can be given by name: `Agent("m-dqn", alpha=0.5, n_step=3)`.
    `network` may also be a torso of your own (`munchausen.networks` says what one is).
    ε, the learning rate, τ and α may also be schedules: `learning_rate="cosine:5e-5:1e-6"`, or
    a function of the agent step. Without steps they last as long as the first call of `learn`.
    """

    def __init__(
        self,
        agent: str = "m-dqn",
        env: str = DEFAULT_ENVIRONMENT,
        *,
        seed: int = 0,
        **changes: Any,
    ):
        if not isinstance(env, str):
            raise UserError(f"env is a name, such as 'gym/CartPole-v1', not {type(env).__name__}")
        use_program_cache()
        import_module_of(env)
        self._settings = make_settings([agent], env, seeds=[seed], changes=changes)
        self._training: Training | None = None
        self._learned: Policy | None = None  # of the training, where it stands
        self._loaded: Policy | None = None
        self._out: Path | None = None
        self._spec = environment_spec(self._settings)
        self._draws = 0

    def __repr__(self) -> str:
        lane = self._settings.lanes[self._loaded.lane if self._loaded else 0]
        known = self._loaded or self._training
        step = known.step if known else 0
        return f"<Agent {lane.agent} on {self._settings.env}, seed {lane.seed}, step {step:,}>"

    @property
    def config(self) -> AgentConfig:
        return self._settings.config

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows of the training so far, one an iteration."""
        return list(self._training.rows) if self._training else []

    @property
    def score(self) -> float | None:
        """Mean return of the last 100 training episodes."""
        return self._training.accounts[0].score if self._training else None

    def learn(
        self, steps: int, *, out: str | Path | None = None, progress: bool = False
    ) -> "Agent":
        """Trains for `steps` more steps. With `out`, a run folder with records and
        checkpoints is kept there, as `munchausen train` would."""
        if self._loaded is not None:
            raise UserError(
                "a loaded agent holds its policy, not its replay or optimiser; "
                "to train on, resume its run: munchausen train --resume --out RUN"
            )
        steps = parse_whole("steps", steps, 1)
        if self._training is not None and out is not None:
            raise UserError("`out` is chosen at the first call of `learn`")
        done = self._training.step if self._training else 0
        total = done + round_up(steps, self.config.group_steps)
        self._settings = replace(self._settings, steps=total).begun()
        if self._training is None:
            if warning := check(self._settings):
                warnings.warn(warning, stacklevel=2)
            self._out = Path(out) if out is not None else None
            folder = create(self._out, self._settings) if self._out else None
            self._training = Training(self._settings, folder)
            self._training.start()
        else:
            self._training.settings = self._settings
            if self._out is not None:
                folder = reopen(self._out, self._settings)
                folder.note_start(self._settings, done)
                self._training.attach(folder)
        name = f"{self._settings.lanes[0].agent} on {self._settings.env}"
        self._learned = None
        try:
            with show_progress(name) if progress else nullcontext(lambda _: None) as watch:
                self._training.run(watch)
        finally:
            self._training.detach()
        return self

    def predict(self, observation: Any, *, epsilon: float = 0.0) -> Any:
        """The action for one observation (an int), or for a batch of them (an array)."""
        epsilon = parse_probability("epsilon", epsilon)
        observations, single = self._batch(observation)
        policy = self._policy()
        self._draws += 1
        choose = _programs(self.config).choose
        tau = policy.regulariser.tau
        actions = np.asarray(choose(policy.network, observations, epsilon, tau, self._draws))
        return int(actions[0]) if single else actions

    def q_values(self, observation: Any) -> np.ndarray:
        """The value of each action."""
        observations, single = self._batch(observation)
        q = np.asarray(_programs(self.config).estimate(self._policy().network, observations))
        return q[0] if single else q

    def evaluate(self, episodes: int = 100, *, epsilon: float | None = None, seed: int = 0):
        """Whole episodes in fresh environments: their returns and lengths."""
        policy = self._policy()
        epsilon = self.config.evaluation_epsilon if epsilon is None else epsilon
        return evaluate(
            self._settings,
            policy.network,
            policy.regulariser,
            episodes=parse_whole("episodes", episodes, 1),
            epsilon=parse_probability("epsilon", epsilon),
            seed=seed,
        )

    def save(self, path: str | Path) -> None:
        """Writes the policy to one safetensors file (no pickle)."""
        policy = self._policy()
        try:
            save_policy(policy, Path(path))
        except (OSError, SafetensorError) as error:
            raise UserError(f"cannot write {path}: {error}") from error

    @classmethod
    def load(cls, path: str | Path, *, lane: int = 0, network: Any = None) -> "Agent":
        """From a file that `save` wrote, or from a run's folder. `network`: the torso it was
        trained with, if that was an object without a name to import."""
        use_program_cache()
        path = Path(path)
        is_run = path.is_dir()
        policy = load_run(path, lane, network) if is_run else load_policy(path, network)
        agent = cls.__new__(cls)
        agent._settings = policy.settings
        agent._training = None
        agent._learned = None
        agent._loaded = policy
        agent._out = None
        agent._spec = environment_spec(policy.settings)
        agent._draws = 0
        return agent

    def _policy(self) -> Policy:
        if self._loaded is not None:
            return self._loaded
        if self._training is None:
            raise UserError("this agent has not learned yet; call learn(steps) or load one")
        if self._learned is None:
            network = self._training.loop.network(self._training.state, 0)
            self._learned = Policy(self._settings, 0, network, self._training.step)
        return self._learned

    def _batch(self, observation: Any) -> tuple[np.ndarray, bool]:
        shape = self._spec.observation_shape(self.config.stack)
        array = np.asarray(observation)
        single = array.shape == shape
        if not single and array.shape[1:] != shape:
            raise UserError(
                f"an observation of {self._spec.name} has shape {shape}, not {array.shape}"
            )
        array = array.astype(self._spec.frame_dtype)
        return array[None] if single else array, single


class _Programs(NamedTuple):
    choose: Callable[..., Any]  # of the network, observations, ε, τ and which draw it is
    estimate: Callable[..., Any]  # of the network and observations


@functools.lru_cache(maxsize=8)
def _programs(config: AgentConfig) -> _Programs:
    """Compiled once for all agents of a configuration."""
    actor = make_actor(config)

    def choose(network: Network, observations: Any, epsilon: Any, tau: Any, draw: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(0), draw)
        return actor.act(network, observations, key, epsilon=epsilon, tau=tau, evaluating=True)

    def estimate(network: Network, observations: Any) -> Any:
        return actor.values(network, observations, jax.random.key(0), evaluating=True)

    return _Programs(compiled(choose, config.precision), compiled(estimate, config.precision))
