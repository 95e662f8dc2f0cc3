import numpy as np


# sol: labels=i64[N=65536], x=f32[N, D=64], zero=f32[S=512, D], golden=references.py:segment_mean
def segment_mean(labels, x, zero):
    """Mean of the rows of x per label (0 where a label does not occur); zero gives the number of segments."""
    total = zero.copy()
    np.add.at(total, labels, x)
    count = np.bincount(labels, minlength=len(zero)).astype(np.float32)
    return total / np.maximum(count, 1.0)[:, None], count
