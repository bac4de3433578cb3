"""Numbers that describe an image -> biasing functions ω_k: known, estimated, tested."""
