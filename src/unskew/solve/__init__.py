"""Stage 4, omega → normalizers: pure mathematics, no knowledge of images."""
