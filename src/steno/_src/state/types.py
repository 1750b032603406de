from steno.core.refs import AbstractRef as AbstractRef
