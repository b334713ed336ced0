"""One module a command: `DESCRIPTION`, `configure(parser)` and `run(options)`, which returns the
exit code. Bad input raises `UserError` before anything is written. A module is imported when its
command is asked for: JAX and matplotlib take seconds."""

# What each is for, in a line.
COMMANDS = {
    "train": "train an agent",
    "evaluate": "play whole episodes with a trained agent",
    "watch": "make a video of a trained agent at play",
    "sweep": "train agents × environments × seeds",
    "report": "tables, figures and a page from runs",
    "agents": "list the agents, or show one",
    "envs": "list the environments",
    "bench": "measure throughput here: environments, learner, whole training",
    "theory": "check every theorem of the paper on random MDPs",
}
