// sol: x=f32[N=4, C=64, H=56, W=56], w=f32[K=128, C//4, 3, 3], bias=f32[K], golden=references.py:conv_pool
// Grouped convolution (4 groups), stride 2, padding 1, then 2x2 max pooling whose winners are written too (index into the 2x2 window).
#include <algorithm>
#include <limits>
void conv_pool(const float* x, const float* w, const float* bias, float* y, long* arg, int N, int C, int H, int W, int K) {
    const int G = 4, OH = (H + 1) / 2, OW = (W + 1) / 2;
    auto conv = [&](int n, int k, int i, int j) {
        float acc = bias[k];
        const int g = k / (K / G);
        for (int c = 0; c < C / G; ++c)
            for (int r = 0; r < 3; ++r)
                for (int s = 0; s < 3; ++s) {
                    int p = 2 * i + r - 1, q = 2 * j + s - 1;
                    if (p >= 0 && p < H && q >= 0 && q < W)
                        acc += x[((n * C + g * (C / G) + c) * H + p) * W + q] * w[((k * (C / G) + c) * 3 + r) * 3 + s];
                }
        return acc;
    };
    for (int n = 0; n < N; ++n)
        for (int k = 0; k < K; ++k)
            for (int i = 0; i < OH / 2; ++i)
                for (int j = 0; j < OW / 2; ++j) {
                    float best = -std::numeric_limits<float>::infinity();
                    long at = 0;
                    for (int t = 0; t < 4; ++t) {
                        float v = conv(n, k, 2 * i + t / 2, 2 * j + t % 2);
                        if (v > best) { best = v; at = t; }
                    }
                    y[((n * K + k) * (OH / 2) + i) * (OW / 2) + j] = best;
                    arg[((n * K + k) * (OH / 2) + i) * (OW / 2) + j] = at;
                }
}
