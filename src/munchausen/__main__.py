from munchausen.cli import entry

entry()
