"""Whole lives of FMI jobs: made from seeds, played, and held against what is promised (README.md)."""
