"""``python -m fairsad`` is the command line."""

from fairsad.cli import main

main()
