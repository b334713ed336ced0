"""A training of a sweep ends with the process that watches it.

An orphan would go on holding its run's lock while nobody looks after it, and the sweep that is
started again could not take the run over. Killed, it loses what is behind its last checkpoint
and no more.
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
