"""The fast executor: each statement becomes a loop nest, compiled by Numba once a structure and kept on disk.

`executor.run` is the entry. Each statement gets a plan (`plan`): it is flattened (`flatten`), written as source
from our own names (`emit`, `bodies`, `scalars`, `writer`), and looked up or compiled (`kernels`, `build`, `disk`,
`native`). Large contractions go through BLAS (`contraction`); what is small or exotic goes to the reference
interpreter (`fallback`). `estimate` refuses what is too large before anything is allocated; `in_bounds` what could
read outside a tensor.
"""
