"""A training of a sweep ends with the process that watches it.

A training that outlives its sweep would keep its run's lock, and the sweep could not resume the run
when it is started again. If the training is killed instead, it loses only the steps since its last
checkpoint.
"""

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def tether(parent: int) -> None:
    """This process is killed when `parent`, which started it, ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_look, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it ended before this process was tied to it
        os.kill(os.getpid(), signal.SIGKILL)


def _look(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
