"""``python -m hetopt``: the command line."""

from hetopt.cli.main import main

if __name__ == "__main__":
    main()
