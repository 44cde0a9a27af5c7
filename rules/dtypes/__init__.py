"""Which tensor, or parameter, has which dtype where: what low precision cannot hold or do."""
