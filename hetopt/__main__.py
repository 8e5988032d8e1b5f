"""``python -m hetopt``: the command line."""

from hetopt.cli import main

if __name__ == "__main__":
    main()
