// sol: x=f32[N=4, C=32, H=64, W=64], golden=references.py:upsample
// Bilinear upsampling by 2, half-pixel centres (align_corners = false), coordinates clamped at the edge.
#include <algorithm>
#include <cmath>
void upsample(const float* x, float* y, int N, int C, int H, int W) {
    for (int nc = 0; nc < N * C; ++nc)
        for (int i = 0; i < 2 * H; ++i)
            for (int j = 0; j < 2 * W; ++j) {
                float fi = std::max((i + 0.5f) / 2 - 0.5f, 0.0f), fj = std::max((j + 0.5f) / 2 - 0.5f, 0.0f);
                int i0 = int(fi), j0 = int(fj);
                int i1 = std::min(i0 + 1, H - 1), j1 = std::min(j0 + 1, W - 1);
                float a = fi - i0, b = fj - j0;
                const float* p = x + nc * H * W;
                y[(nc * 2 * H + i) * 2 * W + j] = (1 - a) * ((1 - b) * p[i0 * W + j0] + b * p[i0 * W + j1]) +
                                                  a * ((1 - b) * p[i1 * W + j0] + b * p[i1 * W + j1]);
            }
}
