"""What a `Target` computes: facts read and checked, and the mass of every stratum of a pool."""
