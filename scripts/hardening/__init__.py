"""The promises under attack: kills, full disks, damaged files, absurd numbers, races, load, mutants. See `__main__`."""
