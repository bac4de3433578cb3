"""Small archives in both forms of CIFAR-10 and CIFAR-100."""

import io
import pickle
import tarfile

import numpy as np

NAMES_10 = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]


PER_BATCH = 3


def batches_10():
    generator = np.random.default_rng(0)
    files = [f"data_batch_{at}" for at in range(1, 6)] + ["test_batch"]
    return {
        file: (
            generator.integers(0, 256, (PER_BATCH, 3072), dtype=np.uint8),
            generator.integers(0, 10, PER_BATCH).tolist(),
        )
        for file in files
    }


def python_2_pickle(data, labels, keys):
    """What Python 2 wrote: text is bytes, and the array is put together by NumPy as it was then."""
    parts = [b"\x80\x02}q\x00("]

    def text(value):
        return b"U" + bytes([len(value)]) + value

    n = len(data)
    parts += [
        text(b"data"),
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85",
        text(b"b"),
        b"\x87R",
    ]
    parts += [
        b"(K\x01",
        b"K" + bytes([n]) + b"M\x00\x0c\x86",
        b"cnumpy\ndtype\n",
        text(b"u1"),
        b"K\x00K\x01\x87R(K\x03",
        text(b"|"),
    ]
    parts += [
        b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
        b"\x89",
        b"T" + len(data.tobytes()).to_bytes(4, "little") + data.tobytes(),
        b"tb",
    ]
    for key, values in zip(keys, labels, strict=True):
        parts += [text(key), b"](", *[b"K" + bytes([value]) for value in values], b"e"]
    return b"".join([*parts, b"u."])


def members_10(form, pickled="python 2"):
    members = {}
    for file, (data, labels) in batches_10().items():
        if form == "binary":
            records = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], data], axis=1)
            members[f"cifar-10-batches-bin/{file}.bin"] = records.tobytes()
        elif pickled == "python 2":
            members[f"cifar-10-batches-py/{file}"] = python_2_pickle(data, [labels], [b"labels"])
        else:
            members[f"cifar-10-batches-py/{file}"] = pickle.dumps(
                {b"data": data, b"labels": labels}, protocol=pickled
            )
    if form == "binary":
        members["cifar-10-batches-bin/batches.meta.txt"] = "\n".join([*NAMES_10, ""]).encode()
    else:
        members["cifar-10-batches-py/batches.meta"] = pickle.dumps(
            {"label_names": NAMES_10, "num_vis": 3072}, protocol=2
        )
    return members


def members_100(form):
    generator = np.random.default_rng(1)
    fine, coarse = [f"class{at}" for at in range(100)], [f"super{at}" for at in range(20)]
    members = {}
    for file, n in (("train", 5), ("test", 2)):
        data = generator.integers(0, 256, (n, 3072), dtype=np.uint8)
        fines, coarses = generator.integers(0, 100, n), generator.integers(0, 20, n)
        if form == "binary":
            members[f"cifar-100-binary/{file}.bin"] = (
                np.column_stack([coarses, fines, data]).astype(np.uint8).tobytes()
            )
        else:
            labels = [fines.tolist(), coarses.tolist()]
            members[f"cifar-100-python/{file}"] = python_2_pickle(
                data, labels, [b"fine_labels", b"coarse_labels"]
            )
    if form == "binary":
        members["cifar-100-binary/fine_label_names.txt"] = "\n".join(fine).encode()
        members["cifar-100-binary/coarse_label_names.txt"] = "\n".join(coarse).encode()
    else:
        members["cifar-100-python/meta"] = pickle.dumps(
            {b"fine_label_names": fine, b"coarse_label_names": coarse}, protocol=2
        )
    return members


def pack(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def unpack(folder, members):
    for name, content in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
