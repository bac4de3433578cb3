"""Stage 5, normalizers → one weight per image, with diagnostics, standard errors, calibration and trimming."""
