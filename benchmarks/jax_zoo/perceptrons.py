"""Plain functions of parameters and inputs: perceptrons, losses, and a step of training."""

import jax
import jax.numpy as jnp
import optax


# sol: params={"w1": f32[784, 256], "b1": f32[256], "w2": f32[256, 10], "b2": f32[10]}, x=f32[B=64, 784]
def mlp(params, x):
    h = jax.nn.relu(x @ params["w1"] + params["b1"])
    return jax.nn.log_softmax(h @ params["w2"] + params["b2"])


# sol: layers=[{"w": f32[D=128, D], "b": f32[D]}, {"w": f32[D, D], "b": f32[D]}, {"w": f32[D, D], "b": f32[D]}],
# sol: x=f32[32, D]
def deep(layers, x):
    for layer in layers:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x


def loss_of(params, x, labels):
    logp = mlp(params, x)
    return -jnp.take_along_axis(logp, labels[:, None], axis=1).mean()


# sol: params={"w1": f32[784, 64], "b1": f32[64], "w2": f32[64, 10], "b2": f32[10]}, x=f32[B=32, 784], labels=i32[B]
def sgd_step(params, x, labels):
    loss, grads = jax.value_and_grad(loss_of)(params, x, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


# sol: params={"w1": f32[784, 64], "b1": f32[64], "w2": f32[64, 10], "b2": f32[10]}, x=f32[B=32, 784], labels=i32[B]
@jax.jit
def adam_step(params, x, labels):
    optimizer = optax.adamw(1e-3)
    grads = jax.grad(loss_of)(params, x, labels)
    updates, _ = optimizer.update(grads, optimizer.init(params), params)
    return optax.apply_updates(params, updates)


# sol: a=f32[N=64, D=128], b=f32[N, D]
def contrastive(a, b):
    a, b = (v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b))
    logits = a @ b.T / 0.07
    targets = jnp.arange(logits.shape[0])
    return (
        optax.softmax_cross_entropy_with_integer_labels(logits, targets)
        + optax.softmax_cross_entropy_with_integer_labels(logits.T, targets)
    ).mean()


# sol: x=f32[64, 128], w=f32[128, 8], u=f32[8, 128]
def low_rank(x, w, u):
    return x + jax.nn.silu(x @ w) @ u


# sol: x=f32[16, 64], codes=f32[256, 64]
def quantize(x, codes):
    distance = (x**2).sum(1, keepdims=True) - 2 * x @ codes.T + (codes**2).sum(1)
    nearest = codes[jnp.argmin(distance, axis=1)]
    return x + jax.lax.stop_gradient(nearest - x), ((nearest - x) ** 2).mean()


# sol: w=f32[20, 20], x=f32[20]
def hessian_of_energy(w, x):
    return jax.hessian(lambda v: jnp.sum(jnp.tanh(w @ v) ** 2))(x)
