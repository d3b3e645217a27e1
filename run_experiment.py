"""Repeats an experiment of the ALBERT paper.

See experiments/program.py.
"""

from experiments import program

if __name__ == "__main__":
    program.main()
