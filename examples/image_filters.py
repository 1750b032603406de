"""Filters of a picture: Gaussian blur, Sobel's edges, a median against salt and pepper, sharpening, and equalised brightness."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.signal import convolve2d


def scene(n):
    y, x = jnp.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    disc = jnp.where(x**2 + y**2 < 0.3, 0.9, 0.2)
    return jnp.where((jnp.abs(x + 0.2) < 0.15) & (y > -0.6), 0.5, disc) + 0.1 * x


def salt_and_pepper(key, image, share=0.1):
    u = jax.random.uniform(key, image.shape)
    return jnp.select([u < share / 2, u > 1 - share / 2], [0.0, 1.0], image)


def gaussian_blur(image, sigma):
    t = jnp.arange(-4, 5)
    weights = jax.nn.softmax(-(t**2) / (2 * sigma**2))
    rows = jax.vmap(lambda row: jnp.convolve(row, weights, mode="same"))
    return rows(rows(jnp.pad(image, 4, mode="edge")).T).T[4:-4, 4:-4]


def edges(image):
    sobel = jnp.outer(jnp.array([1.0, 2.0, 1.0]), jnp.array([1.0, 0.0, -1.0]))
    across = convolve2d(image, sobel, mode="valid")
    down = convolve2d(image, sobel.T, mode="valid")
    return jnp.hypot(across, down)


def median(image, size=3):
    padded = jnp.pad(image, size // 2, mode="reflect")
    patches = lax.conv_general_dilated_patches(padded[None, None], (size, size), (1, 1), "VALID")
    return jnp.median(patches[0], axis=0)


def sharpen(image, amount=1.0):
    return jnp.clip(image + amount * (image - gaussian_blur(image, 1.5)), 0.0, 1.0)


def equalize(image, bins=64):
    counts, borders = jnp.histogram(image, bins=bins)
    cumulative = jnp.cumsum(counts) / image.size
    return jnp.interp(image.ravel(), borders[1:], cumulative).reshape(image.shape)


def show(image):
    shades = " .:-=+*#%@"
    for row in jnp.round(image[::4, ::2] / image.max() * 9).astype(int).tolist():
        print("".join(shades[max(k, 0)] for k in row))


def main(n=64):
    clean = scene(n)
    noisy = salt_and_pepper(jax.random.key(0), clean)
    filters = {"none": lambda x: x, "blur": lambda x: gaussian_blur(x, 1.0), "median": median, "both": lambda x: sharpen(median(x))}
    psnr = {}
    for name, f in filters.items():
        psnr[name] = -10 * jnp.log10(jnp.mean((jax.jit(f)(noisy) - clean) ** 2))
        print(f"{name:7s} {psnr[name]:5.2f} dB")
    found = jax.jit(edges)(median(noisy))
    show(found)
    flat = equalize(clean)
    print(f"contrast {clean.std():.3f}, equalised {flat.std():.3f}")
    return psnr, found.mean(), flat.std()


if __name__ == "__main__":
    main()
