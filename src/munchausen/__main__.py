from munchausen._src.cli import entry

entry()
