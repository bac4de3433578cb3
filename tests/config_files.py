"""Configurations that tests write, and the folder that they name."""

MINIMAL = '[sources]\nmanifest = "scans.csv"\n\n[bias]\nfamily = "strata"\n'


def fill_folder(folder):
    """Everything that the three configurations name."""
    for name in ("north", "south", "east", "west", "phones"):
        (folder / name).mkdir()
    for name in ("all.json", "scans.csv"):
        (folder / name).write_text("")
    (folder / "survey.csv").write_text("label,count\nfox,3\nhare,5\n")
    (folder / "registry.csv").write_text('age,sex,count\n"[0, 40)",f,2\n"[40, 60)",m,3\n')
    return folder


def save(folder, text, name="run.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
