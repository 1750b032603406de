"""A hum is taken out of a melody: the spectrum shows where it is, a notch in it takes it out, a spectrogram finds the notes again."""

import functools

import jax
import jax.numpy as jnp

RATE = 8000
NOTES = {"C": 261.63, "D": 293.66, "E": 329.63, "F": 349.23, "G": 392.00, "A": 440.00}
MELODY = "CDEFGGAAG"
LENGTH = 2000


def tone(frequency):
    t = jnp.arange(LENGTH) / RATE
    overtones = jnp.arange(1, 4)
    wave = jnp.sin(2 * jnp.pi * frequency * overtones[:, None] * t) / overtones[:, None] ** 2
    return jnp.hanning(LENGTH) * wave.sum(axis=0)


@functools.partial(jax.jit, static_argnames="count")
def strongest(signal, count):
    """The frequencies of the highest peaks of the spectrum."""
    power = jnp.abs(jnp.fft.rfft(signal * jnp.hanning(signal.size))) ** 2
    peak = (power > jnp.roll(power, 1)) & (power > jnp.roll(power, -1))
    _, where = jax.lax.top_k(jnp.where(peak, power, 0.0), count)
    return jnp.fft.rfftfreq(signal.size, 1 / RATE)[where]


@jax.jit
def notch(signal, frequency, width=1.5):
    spectrum = jnp.fft.rfft(signal)
    away = (jnp.fft.rfftfreq(signal.size, 1 / RATE) - frequency) / width
    return jnp.fft.irfft(spectrum * (1 - jnp.exp(-0.5 * away**2)), signal.size)


@jax.jit
def pitches(signal):
    """The strongest frequency of each note's time."""
    frames = signal.reshape(-1, LENGTH) * jnp.hanning(LENGTH)
    power = jnp.abs(jnp.fft.rfft(frames, n=8 * LENGTH)) ** 2
    return jnp.fft.rfftfreq(8 * LENGTH, 1 / RATE)[power.argmax(axis=-1)]


def main():
    clean = jnp.concatenate([tone(NOTES[name]) for name in MELODY])
    t = jnp.arange(clean.size) / RATE
    hum = 2.0 * jnp.sin(2 * jnp.pi * 50.0 * t + 0.3)
    noisy = clean + hum + 0.1 * jax.random.normal(jax.random.key(0), clean.shape)
    found = strongest(noisy, 1)[0]
    filtered = notch(noisy, found)
    print(f"the hum is at {found:.1f} Hz")

    def signal_to_noise(x):
        return 10 * jnp.log10(jnp.sum(clean**2) / jnp.sum((x - clean) ** 2))

    print(f"signal to noise {signal_to_noise(noisy):.1f} dB -> {signal_to_noise(filtered):.1f} dB")
    names, frequencies = list(NOTES), jnp.array(list(NOTES.values()))
    heard = pitches(filtered)
    nearest = jnp.abs(jnp.log(heard[:, None] / frequencies)).argmin(axis=1)
    print("heard ", "".join(names[k] for k in nearest), " at ", " ".join(f"{f:.0f}" for f in heard), "Hz", sep="")
    return found, signal_to_noise(filtered), heard


if __name__ == "__main__":
    main()
