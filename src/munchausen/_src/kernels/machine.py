"""The processor's cores that this process may use: a batch system may grant a few of many."""

import os


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
