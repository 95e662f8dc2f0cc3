import triton
import triton.language as tl


# sol: q=f32[B=8, T=2048, H=16, D=128], angle=f32[T, D//2], golden=references.py:rope
@triton.jit
def rope_kernel(q_ptr, angle_ptr, out_ptr, T, H, D: tl.constexpr):
    """Rotary embedding, the half-split form. One program a (batch, position, head)."""
    pid = tl.program_id(0)
    t = (pid // H) % T
    half = tl.arange(0, D // 2)
    theta = tl.load(angle_ptr + t * (D // 2) + half)
    lo = tl.load(q_ptr + pid * D + half)
    hi = tl.load(q_ptr + pid * D + D // 2 + half)
    tl.store(out_ptr + pid * D + half, lo * tl.cos(theta) - hi * tl.sin(theta))
    tl.store(out_ptr + pid * D + D // 2 + half, hi * tl.cos(theta) + lo * tl.sin(theta))
