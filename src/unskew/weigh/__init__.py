"""Stage 5, normalizers → one weight per image.

With diagnosis, error bars, calibration, trimming and shrinking.
"""
