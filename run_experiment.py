"""Repeats an experiment of the ALBERT paper."""

from experiments import program

if __name__ == "__main__":
    program.main()
