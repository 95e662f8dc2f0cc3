"""Translations that a prompt may show, chosen by the operators that occur in the source. A test runs them all."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A source, the words that speak for showing it, and its program."""

    words: tuple[str, ...]
    source: str
    program: str


EXAMPLES = (
    Example(
        ("exp", "softmax", "max", "mean", "norm", "sqrt", "var", "sum"),
        """\
def log_softmax(x):                      # x: f32[R=512, C=1000]
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
""",
        """\
program log_softmax(R=512, C=1000)
  input x: f32[R, C]
  m[r:R]: f32 = max[c:C] x[r, c] @ op=2
  shifted[r:R, c:C]: f32 = x[r, c] - m[r] @ op=2
  z[r:R]: f32 = sum[c:C] exp(shifted[r, c]) @ op=3
  y[r:R, c:C]: f32 = shifted[r, c] - log(z[r]) @ op=3
  output y
""",
    ),
    Example(
        ("matmul", "dot", "gemm", "@", "einsum", "linear", "tile", "__shared__", "acc"),
        """\
// a: f16[M=4096, K=512], b: f16[N=1024, K], c: f32[M, N] is read and written to out
__global__ void gemm_nt(const half* a, const half* b, const float* c, float* out, int M, int N, int K) {
    int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
    if (m >= M || n >= N) return;
    float acc = 0;
    for (int k = 0; k < K; k++) acc += (float)a[m * K + k] * (float)b[n * K + k];
    out[m * N + n] = 0.5f * acc + c[m * N + n];
}
""",
        """\
program gemm_nt(M=4096, K=512, N=1024)
  input a: f16[M, K]
  input b: f16[N, K]
  input c: f32[M, N]
  acc[m:M, n:N]: f32 = sum[k:K] a[m, k] * b[n, k] @ op=6
  out[m:M, n:N]: f32 = 0.5 * acc[m, n] + c[m, n] @ op=7
  output out
""",
    ),
    Example(
        ("conv", "pad", "stride", "pool", "kernel", "stencil", "window", "dilation"),
        """\
// x: f32[N=8, C=16, L=1000], w: f32[K=32, C, 5]; stride 2, padding 2
for n, k, i < (L + 1) / 2:
    y[n][k][i] = max(0, sum over c, r of x[n][c][2*i + r - 2] * w[k][c][r])     // 0 outside of x
""",
        """\
program conv1d(N=8, C=16, L=1000, K=32)
  input x: f32[N, C, L]
  input w: f32[K, C, 5]
  acc[n:N, k:K, i:(L + 1)//2]: f32 = sum[c:C, r:5] x[n, c, 2*i + r - 2] * w[k, c, r]
    if 0 <= 2*i + r - 2 < L @ op=3
  y[n:N, k:K, i:(L + 1)//2]: f32 = maximum(acc[n, k, i], 0.0) @ op=3
  output y
""",
    ),
    Example(
        ("scan", "carry", "recurr", "state", "rnn", "lstm", "gru", "for t ", "cumsum", "prefix"),
        """\
def leaky(x, decay):                     # x: f32[T=100, D=64], decay: f32[D]
    h = np.zeros(D)
    for t in range(T):
        h = decay * h + x[t]
        states.append(h)
    return np.stack(states), np.cumsum(x, axis=0)
""",
        """\
program leaky(T=100, D=64)
  input x: f32[T, D]
  input decay: f32[D]
  h0[d:D]: f32 = 0.0 @ op=2
  loop t:T
    carry h(initial=h0, next=h_new, final=h_last)
    h_new[d:D]: f32 = decay[d] * h[d] + x[t, d] @ op=4
    collect states(inner=h_new)
  total[t:T, d:D]: f32 = scan sum[t] x[t, d] @ op=6
  output states, total
""",
    ),
    Example(
        ("gather", "embedding", "index", "topk", "sort", "argsort", "take", "scatter", "histogram", "where", "nearest"),
        """\
def pooled(table, ids, segment, zero):   # table: f32[V=1000, D=32], ids: i64[N=64], segment: i64[N], zero: f32[S=8, D]
    rows = table[ids]
    np.add.at(zero, segment, rows)
    return zero, rows.argmax(axis=1)
""",
        """\
program pooled(V=1000, D=32, N=64, S=8)
  input table: f32[V, D]
  input ids: i64[N]
  input segment: i64[N]
  input zero: f32[S, D]
  rows = take(table, ids; axis=0): f32[N, D] @ op=2
  sums = index_add(zero, segment, rows; axis=0, reduce="add"): f32[S, D] @ op=3
  best[n:N]: i64 = argmax[d:D] rows[n, d] @ op=4
  output sums, best
""",
    ),
    Example(
        ("mask", "causal", "tril", "attention", "select", "reverse", "concat", "reshape", "transpose", "split"),
        """\
def causal_scores(q, k):                 # q: f32[B=4, H=8, T=256, D=64], k: f32[B, G=2, T, D]: H/G heads share a key
    k = np.repeat(k, H // G, axis=1)
    s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(D)
    return np.where(np.tril(np.ones((T, T))), s, -np.inf)
""",
        """\
program causal_scores(B=4, H=8, T=256, D=64, G=2)
  input q: f32[B, H, T, D]
  input k: f32[B, G, T, D]
  dot[b:B, h:H, i:T, j:T]: f32 = sum[d:D] q[b, h, i, d] * k[b, h // (H//G), j, d] @ op=3
  s[b:B, h:H, i:T, j:T]: f32 = dot[b, h, i, j] / sqrt(D) @ op=3
  y[b:B, h:H, i:T, j:T]: f32 = select(i >= j, s[b, h, i, j], -inf) @ op=4
  output y
""",
    ),
)
