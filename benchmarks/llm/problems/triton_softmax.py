import triton
import triton.language as tl


# sol: x=f16[R=4096, C=8000], golden=references.py:softmax
@triton.jit
def softmax_kernel(y_ptr, x_ptr, n_cols, scale, BLOCK: tl.constexpr):
    """y = softmax(x * 0.125) along the last axis; scale is always 0.125; one program a row."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32) * scale
    x = x - tl.max(x, axis=0)
    numerator = tl.exp(x)
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * n_cols + cols, y.to(tl.float16), mask=mask)
