"""What two threads must not import at once.

Python does not let two threads wait for each other's imports: one of them gets a module that is not complete. The modules of
scikit-learn import each other in circles, so two calls that first use two of them at the same time end in ImportError.
"""

from __future__ import annotations

import threading

_one_at_a_time = threading.Lock()


def import_for_threads() -> tuple[str, ...]:
    """Import, in a thread that is not the main one, all that we use of scikit-learn, and return the names.

    The main thread imports what it uses when it uses it.
    """
    if threading.current_thread() is threading.main_thread():
        return ()
    with _one_at_a_time:
        from sklearn import cluster, ensemble, inspection

        return cluster.__name__, ensemble.__name__, inspection.__name__
