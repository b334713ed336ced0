"""What a watcher of a training is told."""

import io

from munchausen._src.experiment.pace import Progress
from munchausen._src.experiment.settings import make_settings
from munchausen._src.experiment.training import Training
from munchausen._src.progress import show_progress


def test_compiling_is_said_at_the_start_and_before_learning_begins():
    changes = {"warmup_steps": 100, "network": "mlp-small", "batch_size": 8}
    settings = make_settings(
        ["m-dqn"], "gym/CartPole-v1", seeds=[0], steps=200, iteration_steps=40, changes=changes
    )
    training, seen = Training(settings), []
    try:
        training.start()
        training.run(seen.append)
    finally:
        training.close()
    # Learning begins after step 100, in the chunk from 80 to 120.
    assert [progress.step for progress in seen if progress.compiling] == [0, 80]
    assert [progress.step for progress in seen if not progress.compiling] == [40, 80, 120, 160, 200]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_says_it_too():
    stream = Terminal()
    with show_progress("m-dqn", stream) as watch:
        watch(Progress(40, 200, [1.5], 10.0, compiling=False))
        stream.truncate(0)
        watch(Progress(80, 200, [1.5], 0.0, compiling=True))
    assert "compiling" in stream.getvalue()
