"""``python -m hetopt``: the command line."""

from hetopt.command_line import main

if __name__ == "__main__":
    main()
