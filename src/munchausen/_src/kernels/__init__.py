"""The only room that knows hardware: which way of computing something is fastest here, how
programs are compiled and kept, and what this machine has.

Everything here is a plain function of arrays or of nothing, and gives the same numbers whatever
the machine. Modules are imported one by one, because some of them do without JAX:

convolution.py    convolutions of weights [out, in, height, width]
dense.py          products with weights [out, in], and the gates of implicit quantiles
dispatch.py       the decisions that depend on the machine, each with its reason
compiling.py      programs and their compile options
program_cache.py  the folder of compiled programs
machine.py        cores, memory, GPUs
"""
