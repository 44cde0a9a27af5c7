"""What `campaign.py` consists of: programs, mutants, neutral edits, kills, and what must hold."""
