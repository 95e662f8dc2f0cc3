/* sol: x=f32[N=8, H=112, W=112, C=64], w=f32[3, 3, C], golden=references.py:depthwise */
/* Depthwise 3x3 convolution, dilation 2, padding 2, channels last, followed by a clamp to 0..6. */
void depthwise(int N, int H, int W, int C, const float *x, const float *w, float *y) {
    for (int n = 0; n < N; n++)
        for (int i = 0; i < H; i++)
            for (int j = 0; j < W; j++)
                for (int c = 0; c < C; c++) {
                    float acc = 0.0f;
                    for (int r = 0; r < 3; r++)
                        for (int s = 0; s < 3; s++) {
                            int p = i + 2 * r - 2, q = j + 2 * s - 2;
                            if (p < 0 || p >= H || q < 0 || q >= W) continue;
                            acc += x[((n * H + p) * W + q) * C + c] * w[(r * 3 + s) * C + c];
                        }
                    y[((n * H + i) * W + j) * C + c] = acc < 0 ? 0 : acc > 6 ? 6 : acc;
                }
}
