"""The core: what it exports is public as `munchausen.core`."""
