"""Files for tests that read images: the content of a file is its name unless it matters."""


def put(root, *names, content=None):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode() if content is None else content)
    return root


def table(root, text, name="m.csv", encoding="utf-8"):
    (root / name).write_text(text, encoding=encoding)
    return root / name
