"""What `jax.experimental` offers, as far as it is here."""

from steno.callback import io_callback as io_callback
