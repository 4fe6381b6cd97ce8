"""What a folder of results says: tables, figures, and one page for people who were not there."""
