#!/usr/bin/env python3
"""lib.hostile.py LARDER FOLDER: stores and archives that a malicious publisher could have signed, and what becomes of
them. Everything is written by hand from docs/formats/, since the product's writers refuse it, and signed with a real
key; the mathematics are those of the golden readers.

Every case is a row of a table. Fetching it into a folder that is not there, and over an installation, must end with
exit status 4, the first not made and the second unchanged; so must a fetch and an ls of an archive with that tree.
"fine" is the control: it must be accepted, or the refusals would prove nothing.

Prints "ok NAME" or "not ok NAME: why".
"""
import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import read_pack  # noqa: E402
import read_release  # noqa: E402

INTEGRITY = 4
BLOCK_MAX = 262144
ORDER, BASE = read_release.N, read_release.G
SPKI = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
CONTENT = b"the content of a file\n"


# ---- signing: ECDSA over P-256 with a secret and nonces that anybody may know ----

SECRET = int.from_bytes(hashlib.sha256(b"hostile").digest(), "big") % ORDER
POINT = read_release.times(SECRET, BASE)


def b64(data):
    return read_release.b64(data).decode()


def public_pem():
    text = base64.encodebytes(SPKI + b"".join(c.to_bytes(32, "big") for c in POINT)).decode().replace("\n", "")
    lines = "\n".join(text[i : i + 64] for i in range(0, len(text), 64))
    return f"-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n"


def kid():
    x, y = (b64(c.to_bytes(32, "big")) for c in POINT)
    return b64(hashlib.sha256(f'{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}'.encode()).digest())


def sign(payload):
    header = f'{{"alg":"ES256","kid":"{kid()}"}}'
    text = b64(header.encode()) + "." + b64(payload)
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    nonce = int.from_bytes(hashlib.sha256(b"nonce" + text.encode()).digest(), "big") % ORDER
    r = read_release.times(nonce, BASE)[0] % ORDER
    s = pow(nonce, -1, ORDER) * (digest + r * SECRET) % ORDER
    return text + "." + b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))


# ---- trees ----


def raw(name):
    return name.encode() if isinstance(name, str) else name


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def entry(kind, mode, name, rest):
    return struct.pack("<HB", kind << 12 | mode, len(raw(name))) + raw(name) + rest


def reference(data):
    return varint(len(data)) + hashlib.sha256(data).digest()


def file(name, mode=0o644, data=CONTENT):
    return entry(1, mode, name, varint(1) + reference(data))


def folder(name, *entries, mode=0o755):
    return entry(2, mode, name, b"".join(entries) + b"\0\0")


def link(name, target):
    return entry(3, 0o777, name, varint(len(raw(target))) + raw(target))


def tree(*entries):
    return b"LARDTREE" + struct.pack("<II", 1, 0) + b"".join(entries) + b"\0\0"


def deep(count, length):
    inside = file("f")
    for _ in range(count):
        inside = folder("d" * length, inside)
    return inside


def huge(blocks):
    """A file that is one block of 256 KiB over and over."""
    return entry(1, 0o644, "huge", varint(blocks) + reference(bytes(BLOCK_MAX)) * blocks)


# name, the tree's entries, how many files, folders, symlinks and block references the record claims
TREES = [
    ("fine", [file("a"), folder("d", file("f"), link("up", "../a"))], (2, 1, 1, 2)),
    ("name ..", [file("..")], None),
    ("name .", [file(".")], None),
    ("name with a slash", [file("a/b")], None),
    ("name ../x", [file("../x")], None),
    ("absolute name", [file("/x")], None),
    ("folder ..", [folder("..", file("x"))], (1, 1, 0, 1)),
    ("backslash", [file("..\\x")], None),
    ("colon", [file("C:")], None),
    ("stream", [file("a:b")], None),
    ("line feed", [file("a\nb")], None),
    ("escape", [file("a\x1b[2J")], None),
    ("delete", [file("a\x7f")], None),
    ("C1", [file("a\u009b")], None),
    ("NUL", [file(b"a\0b")], None),
    ("no UTF-8", [file(b"a\xff")], None),
    ("overlong dots", [file(b"\xc0\xae\xc0\xae")], None),
    ("not NFC", [file("e\u0301")], None),
    ("no name", [file("")], None),
    ("trailing dot", [file("a.")], None),
    ("trailing space", [file("a ")], None),
    ("device", [file("con")], None),
    ("device with an extension", [file("NUL.txt")], None),
    (".larder", [folder(".larder", file("installed"))], (1, 1, 0, 1)),
    (".LARDER", [file(".LARDER")], None),
    ("a path over 1024 bytes", [deep(5, 250)], (1, 5, 0, 1)),
    ("case clash", [file("README"), file("Readme")], (2, 0, 0, 2)),
    ("clash of sharp s", [file("STRASSE"), file("stra\u00dfe")], (2, 0, 0, 2)),
    ("the same name twice", [file("a"), file("a")], (2, 0, 0, 2)),
    ("a file and a folder of one name", [link("a", "b"), folder("a", file("x"))], (1, 1, 1, 1)),
    ("names out of order", [file("b"), file("a")], (2, 0, 0, 2)),
    ("suid", [file("a", 0o4755)], None),
    ("sgid", [file("a", 0o2755)], None),
    ("sticky folder", [folder("a", mode=0o1777)], (0, 1, 0, 0)),
    ("unknown kind", [entry(4, 0o644, "a", b"")], (0, 0, 0, 0)),
    ("symlink to the root of the system", [link("a", "/etc/passwd")], (0, 0, 1, 0)),
    ("symlink out", [link("a", "../out")], (0, 0, 1, 0)),
    ("symlink out of a folder", [folder("d", link("a", "../../out"))], (0, 1, 1, 0)),
    ("symlink down and out", [folder("d", file("f")), link("e", "d/../../out")], (1, 1, 1, 1)),
    ("symlink out by another", [folder("d", folder("e", file("f"))), link("l", "d/e"), link("m", "l/../../../out")],
     (1, 2, 2, 1)),
    ("symlinks in a circle", [link("a", "b"), link("b", "a")], (0, 0, 2, 0)),
    ("empty symlink", [link("a", "")], (0, 0, 1, 0)),
    ("symlink with a control character", [link("a", "b\nc")], (0, 0, 1, 0)),
    ("more blocks than bytes", [entry(1, 0o644, "a", varint(1 << 40))], None),
    ("a block of no bytes", [entry(1, 0o644, "a", varint(1) + varint(0) + bytes(32))], None),
    ("a block over 256 KiB", [entry(1, 0o644, "a", varint(1) + varint(BLOCK_MAX + 1) + bytes(32))], None),
    ("a folder that does not end", [entry(2, 0o755, "a", b"")], (0, 1, 0, 0)),
]


# ---- packs, maps, records ----


def make_pack(blocks, sections=(), whole=True):
    """A pack of raw blocks; gives its bytes and where each block lies. A fetch reads no checksums: without whole they
    are left out, since this language is slow at them."""
    head = b"LARDPACK" + struct.pack("<IIII", 1, 0, 1, 0) + bytes(40)
    body, places = b"", {}
    for data in blocks:
        block = hashlib.sha256(data).digest()
        if block not in places:
            places[block] = (64 + len(body), len(data))
            body += data
    entries, checksums = b"", b""
    for block in sorted(places):
        offset, length = places[block]
        entries += block + offset.to_bytes(6, "little") + struct.pack("<IIBB", length, length, 0, 0)
        checksums += struct.pack("<Q", read_pack.xxh3(body[offset - 64 : offset - 64 + length]) if whole else 0)
    rows, at = [(1, 0, head)], 64 + len(body)
    for kind, data in [(2, entries), (3, checksums), *sections]:
        rows.append((kind, at, data))
        at += len(data)
    table = b"LARDINDX" + struct.pack("<II", len(rows), 0)
    for kind, position, data in rows:
        table += struct.pack("<IIQQQ", kind, 0, position, len(data), read_pack.xxh3(data))
        table += hashlib.sha256(data).digest()
    trailer = struct.pack("<QIIQ", at, len(table), 0, read_pack.xxh3(table)) + b"LARDTAIL"
    pack = head + body + b"".join(data for _, _, data in rows[1:]) + table + trailer
    return pack, places, hashlib.sha256(table).hexdigest()


def place(number, offset, stored, codec=0, flags=0):
    return (number.to_bytes(3, "little") + offset.to_bytes(6, "little") + stored.to_bytes(3, "little")
            + bytes([codec, flags]))


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data)


def cut(data):
    """Blocks of a length that a tree of one block, over and over, repeats too: 35 bytes a reference."""
    length = BLOCK_MAX // 35 * 35
    return [data[i : i + length] for i in range(0, len(data), length)]


def make_store(root, tree_bytes, counts, content=CONTENT, bend=lambda what, value: value):
    """A folder store with one release. bend(what, value) may change the map's entries ("map"), the top block ("top"),
    the record ("record") and the record's text ("payload") on their way."""
    files, folders, symlinks, references = counts
    _, places, _ = make_pack([content], whole=False)
    entries = bend("map", [place(1, *places[hashlib.sha256(content).digest()])] * references)
    map_bytes = b"".join(entries)
    metadata = cut(tree_bytes) + cut(map_bytes)
    # The top block's own place is behind what it lists.
    _, places, _ = make_pack([content, *metadata], whole=False)
    top = b"LARDTOP\0" + struct.pack("<IIII", 1, len(cut(tree_bytes)), len(cut(map_bytes)), 0)
    for data in metadata:
        block = hashlib.sha256(data).digest()
        top += block + struct.pack("<I", len(data)) + place(1, *places[block])
    top = bend("top", top)
    pack, places, pack_id = make_pack([content, *metadata, top], whole=False)
    block = hashlib.sha256(top).digest()
    record = {
        "format": 1, "store": "0123456789abcdef" * 2, "channel": "live", "sequence": 1, "created": 1700000000,
        "totals": {"files": files, "folders": folders, "symlinks": symlinks, "bytes": references * len(content),
                   "blocks": references, "tree_bytes": len(tree_bytes), "map_bytes": len(map_bytes)},
        "tree": hashlib.sha256(tree_bytes).hexdigest(),
        "top": {"id": block.hex(), "plain": len(top), "pack": 1, "offset": places[block][0], "stored": len(top),
                "codec": "none"},
        "packs": [{"no": 1, "id": pack_id, "size": len(pack)}], "deltas": [], "previous": None, "note": "",
    }
    record = bend("record", record)
    payload = bend("payload", json.dumps(record, separators=(",", ":"), sort_keys=True))
    jws = sign(payload.encode()).encode()
    write(f"{root}/FORMAT", b"larder-store 1\n" + record["store"].encode() + b"\n")
    write(f"{root}/packs/{pack_id[:2]}/{pack_id}.pack", pack)
    write(f"{root}/releases/live/1", jws)
    write(f"{root}/channels/live", jws)


def bender(what, change):
    return lambda kind, value: change(value) if kind == what else value


def with_path(path, value):
    """Sets a field of the record: "totals.files"."""
    def change(record):
        *above, last = path.split(".")
        inside = record
        for key in above:
            inside = inside[int(key)] if isinstance(inside, list) else inside[key]
        inside[last] = value(inside[last]) if callable(value) else value
        return record
    return bender("record", change)


def more(value):
    return value + 1


FINE, FINE_COUNTS = tree(*TREES[0][1]), TREES[0][2]
# Not what is installed, which would need nothing fetched.
OTHER, OTHER_COUNTS = tree(file("b"), file("c"), folder("d", link("up", "../b"))), (2, 1, 1, 2)
ROW = 24  # the first row of a top block
LIES = [
    ("files that are not there", with_path("totals.files", more)),
    ("a folder too few", with_path("totals.folders", 0)),
    ("bytes that are not there", with_path("totals.bytes", more)),
    ("blocks that are not there", with_path("totals.blocks", more)),
    ("a tree that is longer", with_path("totals.tree_bytes", more)),
    ("a map that is longer", with_path("totals.map_bytes", lambda n: n + 14)),
    ("another tree", with_path("tree", "00" * 32)),
    ("another top block", with_path("top.id", "00" * 32)),
    ("a top block outside its pack", with_path("top.offset", 1 << 40)),
    ("a top block in the pack's header", with_path("top.offset", 8)),
    ("a top block in no pack", with_path("top.pack", 7)),
    ("a terabyte in the record", with_path("totals.bytes", 1 << 40)),
    ("no packs", with_path("packs", [])),
    ("a pack of no size", with_path("packs.0.size", 0)),
    ("sequence 0", with_path("sequence", 0)),
    ("another channel", with_path("channel", "beta")),
    ("a channel that is a path", with_path("channel", "../live")),
    ("a note for the terminal", with_path("note", "\x1b[2J")),
    ("a field twice", bender("payload", lambda text: text.replace('"note":""', '"note":"","note":""'))),
    ("a payload that is no JSON", bender("payload", lambda text: text[:-1])),
    ("a top block of another kind", bender("top", lambda top: b"LARDTOPX" + top[8:])),
    ("a top block with more rows", bender("top", lambda top: top[:12] + struct.pack("<I", 5000) + top[16:])),
    ("a tree block of no bytes", bender("top", lambda top: top[: ROW + 32] + bytes(4) + top[ROW + 36 :])),
    ("a tree block in no pack", bender("top", lambda top: top[: ROW + 36] + b"\x09\0\0" + top[ROW + 39 :])),
    ("a tree block outside its pack", bender("top", lambda top: top[: ROW + 39] + b"\xff" * 6 + top[ROW + 45 :])),
    ("a tree block of another id", bender("top", lambda top: top[:ROW] + bytes(32) + top[ROW + 32 :])),
]
FAR = [
    ("a block in no pack", [place(9, 64, len(CONTENT))] * 2),
    ("a block outside its pack", [place(1, 1 << 40, len(CONTENT))] * 2),
    ("a block in the pack's header", [place(1, 0, len(CONTENT))] * 2),
    ("a block of no bytes stored", [place(1, 64, 0)] * 2),
    ("a block that is stored too long", [place(1, 64, 0xFFFFFF)] * 2),
    ("a map with unknown flags", [place(1, 64, len(CONTENT), 0, 1)] * 2),
]


# ---- what becomes of them ----


def larder(program, *arguments):
    done = subprocess.run([program, *arguments, "--cache", "hostile-cache"], capture_output=True, text=True,
                          errors="replace", timeout=100, check=False)
    return done.returncode, done.stderr.strip()


def listing(root):
    found = {}
    for above, names, files in os.walk(root):
        if above == root and ".larder" in names:
            names.remove(".larder")
        for name in names + files:
            info = os.lstat(os.path.join(above, name))
            found[os.path.relpath(os.path.join(above, name), root)] = (info.st_mode, info.st_size, info.st_mtime_ns)
    return found


class Trial:
    def __init__(self, program, root):
        self.program, self.root = program, root
        self.installed = f"{root}/installed"

    def refused(self, arguments, target, before):
        shutil.rmtree("hostile-cache", ignore_errors=True)
        status, text = larder(self.program, *arguments)
        if status != INTEGRITY:
            return f"{arguments[0]}: exit status {status}: {text[:300]}"
        if any(ord(c) < 32 and c != "\n" for c in text):
            return f"{arguments[0]}: a message with control characters: {text!r}"
        if before is None and os.path.lexists(target):
            return f"{arguments[0]}: {target} was made"
        if before is not None and listing(target) != before:
            return f"{arguments[0]}: {target} was changed"
        return None

    def store(self, name, *arguments, **options):
        """Makes a store and tries it."""
        root = f"{self.root}/store"
        shutil.rmtree(root, ignore_errors=True)
        make_store(root, *arguments, **options)
        trust = ["--trust", f"{self.root}/key.pub"]
        fresh = f"{self.root}/fresh"
        before = listing(self.installed)
        fault = (self.refused(["fetch", f"{root}#live", fresh, "--no-sync", *trust], fresh, None)
                 or self.refused(["fetch", f"{root}#live", self.installed, "--no-sync", *trust], self.installed,
                                 before))
        shutil.rmtree(fresh, ignore_errors=True)
        print(f"not ok {name}: {fault}" if fault else f"ok {name}", flush=True)

    def archive(self, name, tree_bytes):
        path, fresh = f"{self.root}/hostile.pack", f"{self.root}/fresh"
        write(path, make_pack([CONTENT], [(4, tree_bytes)])[0])
        fault = self.refused(["fetch", path, fresh], fresh, None) or self.refused(["ls", path], fresh, None)
        shutil.rmtree(fresh, ignore_errors=True)
        print(f"not ok {name}, in an archive: {fault}" if fault else f"ok {name}, in an archive", flush=True)

    def control(self):
        """What is not hostile is accepted: store and archive."""
        make_store(f"{self.root}/store", FINE, FINE_COUNTS)
        write(f"{self.root}/fine.pack", make_pack([CONTENT], [(4, FINE)])[0])
        trust = ["--trust", f"{self.root}/key.pub"]
        for source, target in (("store#live", self.installed), ("fine.pack", f"{self.root}/fine.inst")):
            status, text = larder(self.program, "fetch", f"{self.root}/{source}", target,
                                  *(trust if "#" in source else []))
            fine = status == 0 and sorted(listing(target)) == ["a", "d", "d/f", "d/up"]
            print(f"ok {source} is accepted" if fine else f"not ok {source} is accepted: {status} {text}", flush=True)


def main():
    program, root = sys.argv[1:3]
    trial = Trial(program, root)
    write(f"{root}/key.pub", public_pem().encode())
    trial.control()
    for name, entries, counts in TREES[1:]:
        trial.store(name, tree(*entries), counts or (1, 0, 0, 1))
        trial.archive(name, tree(*entries))
    for name, bend in LIES:
        trial.store(name, OTHER, OTHER_COUNTS, bend=bend)
    for name, entries in FAR:
        trial.store(name, OTHER, OTHER_COUNTS, bend=bender("map", lambda _, entries=entries: entries))
    # A file of 300 GiB is within what a record may claim; the tree that says it is some 40 MB, of one block.
    trial.store("one block repeated to 300 GiB", tree(huge(1_228_800)), (1, 0, 0, 1_228_800), content=bytes(BLOCK_MAX))
    trial.store("one block repeated to a terabyte", tree(huge(1 << 22)), (1, 0, 0, 1), content=bytes(BLOCK_MAX))


if __name__ == "__main__":
    main()
