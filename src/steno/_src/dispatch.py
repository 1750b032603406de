from steno.callback import effects_barrier


def wait_for_tokens() -> None:
    """Waits for the effects of what has been called."""
    effects_barrier()
