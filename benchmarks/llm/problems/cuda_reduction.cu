// sol: x=f32[N=1048699], golden=references.py:block_stats
// Each block of 128 threads folds 256 elements: first into shared memory, then by a tree. The last block is ragged.
// out[b] holds the sum of squares of block b, top[b] the largest absolute value.
__global__ void block_stats(const float* x, float* out, float* top, int n) {
    __shared__ float s[128];
    __shared__ float m[128];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    float a = i < n ? x[i] : 0.0f;
    float b = i + 128 < n ? x[i + 128] : 0.0f;
    s[t] = a * a + b * b;
    m[t] = fmaxf(fabsf(a), fabsf(b));
    __syncthreads();
    for (int k = 64; k > 0; k >>= 1) {
        if (t < k) {
            s[t] += s[t + k];
            m[t] = fmaxf(m[t], m[t + k]);
        }
        __syncthreads();
    }
    if (t == 0) {
        out[blockIdx.x] = s[0];
        top[blockIdx.x] = m[0];
    }
}
// launched as block_stats<<<(n + 255) / 256, 128>>>(x, out, top, n)
