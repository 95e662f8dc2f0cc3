// sol: u=f32[H=4096, W=4096], golden=references.py:heat_step
// One Jacobi step of the heat equation. The border is copied.
__global__ void heat_step(const float* u, float* v, int H, int W) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= H || j >= W) return;
    float c = u[i * W + j];
    if (i == 0 || j == 0 || i == H - 1 || j == W - 1) {
        v[i * W + j] = c;
        return;
    }
    v[i * W + j] = c + 0.1f * (u[(i - 1) * W + j] + u[(i + 1) * W + j] + u[i * W + j - 1] + u[i * W + j + 1] - 4.0f * c);
}
