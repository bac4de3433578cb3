"""Stage 5, normalizers → one weight per image, with diagnosis, error bars, calibration, trimming
and shrinking.
"""
