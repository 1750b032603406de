from steno.lax import stop_gradient_p as stop_gradient_p
