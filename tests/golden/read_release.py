#!/usr/bin/env python3
"""A reader of trees, maps, top blocks and records, written from docs/formats/tree.md and release.md alone, with
nothing but the standard library; it checks ECDSA signatures too.

read_release.py FILE.tree...   lists trees; exit 1 with one line when a check fails
read_release.py                reads what is in trees/ beside it, then every file with a bit changed or cut off
"""
import base64
import hashlib
import json
import os
import struct
import sys
import unicodedata

BLOCK_MAX, STORED_MAX = 262144, 262208
DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"}
DEVICES |= {port + digit for port in ("com", "lpt") for digit in "123456789\u00b9\u00b2\u00b3"}


class Refused(Exception):
    pass


def need(holds, what):
    if not holds:
        raise Refused(what)


# ---- trees ----


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        need(self.at + count <= len(self.data), "cut")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, width):
        return int.from_bytes(self.take(width), "little")

    def varint(self):
        value = 0
        for i in range(10):
            byte = self.number(1)
            need(not (i and byte == 0) and not (i == 9 and byte > 1), "varint")
            value |= (byte & 127) << 7 * i
            if byte < 128:
                return value
        raise Refused("varint")


def fold(name):
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def legal_name(raw):
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("not UTF-8")
    need(1 <= len(raw) <= 255 and name not in (".", ".."), "name")
    need(not any(c in "/\\:" or ord(c) < 32 or 127 <= ord(c) < 160 for c in name), "character")
    need(unicodedata.normalize("NFC", name) == name, "not NFC")
    return name


def portable_name(raw):
    name = legal_name(raw)
    need(not any(c in '<>"|?*' for c in name) and name[-1] not in ". ", "not portable")
    need(name.split(".")[0].rstrip(" ").lower() not in DEVICES, "device")
    return name


def check_target(raw, depth):
    parts = raw.split(b"/")
    ups = 0
    while ups < len(parts) and parts[ups] == b"..":
        ups += 1
    need(ups <= depth, "target leaves the tree")
    for part in parts[ups:]:
        legal_name(part)


def read_entry(c, kind_mode, path, nodes):
    """One entry in the folder path (a list of names); gives its name, and whether it opens a folder."""
    kind, mode = kind_mode >> 12, kind_mode & 0o777
    need(1 <= kind <= 3 and not kind_mode & 0xE00, "kind and mode")
    raw = c.take(c.number(1))
    name = portable_name(raw)
    here = path + [name]
    need(len("/".join(here).encode()) <= 1024, "path too long")
    need(path or fold(name) != ".larder", "reserved")
    node = {"path": "/".join(here), "kind": "?FDL"[kind], "mode": mode}
    if kind == 1:
        count = c.varint()
        need(count * 33 <= len(c.data) - c.at, "count")
        node["blocks"] = [(c.varint(), c.take(32).hex()) for _ in range(count)]
        need(all(1 <= length <= BLOCK_MAX for length, _ in node["blocks"]), "block length")
    elif kind == 3:
        length = c.varint()
        need(1 <= length <= 1024, "target length")
        target = c.take(length)
        check_target(target, len(path))
        node["target"] = target.decode()
    nodes.append(node)
    return raw, kind == 2


def resolve(by_path, start):
    """Walks a symlink as a system does."""
    place, todo, links = start["path"].split("/")[:-1], start["target"].split("/"), 1
    while todo:
        part = todo.pop(0)
        if part == "..":
            need(place, "symlink leaves the tree")
            place.pop()
            continue
        node = by_path.get("/".join(place + [part]))
        if node is None or node["kind"] == "F":
            return
        if node["kind"] == "D":
            place.append(part)
            continue
        links += 1
        need(links <= 40, "too many symlinks")
        todo = node["target"].split("/") + todo


def read_tree(data):
    c = Cursor(data)
    need(c.take(8) == b"LARDTREE" and c.number(4) == 1 and c.number(4) == 0, "header")
    nodes, path, last, folded = [], [], [b""], [set()]
    while True:
        kind_mode = c.number(2)
        if not kind_mode:
            last.pop()
            folded.pop()
            if not last:
                break
            path.pop()
            continue
        raw, opens = read_entry(c, kind_mode, path, nodes)
        need(raw > last[-1], "order")
        need(fold(raw.decode()) not in folded[-1], "clash")
        last[-1] = raw
        folded[-1].add(fold(raw.decode()))
        if opens:
            path.append(raw.decode())
            last.append(b"")
            folded.append(set())
    need(c.at == len(data), "bytes after the end")
    by_path = {node["path"]: node for node in nodes}
    for node in nodes:
        if node["kind"] == "L":
            resolve(by_path, node)
    return nodes


def totals_of(nodes):
    blocks = [length for node in nodes for length, _ in node.get("blocks", [])]
    kinds = [node["kind"] for node in nodes]
    return {"files": kinds.count("F"), "folders": kinds.count("D"), "symlinks": kinds.count("L"),
            "bytes": sum(blocks), "blocks": len(blocks)}


def listing(nodes):
    lines = []
    for node in nodes:
        more = node.get("target", " ".join("%d:%s" % (n, i[:8]) for n, i in node.get("blocks", [])))
        lines.append("%s %03o %s\t%s\n" % (node["kind"], node["mode"], node["path"], more))
    return "".join(lines)


# ---- map and top block ----


def read_place(raw, packs):
    pack, offset = int.from_bytes(raw[:3], "little"), int.from_bytes(raw[3:9], "little")
    stored, codec, flags = int.from_bytes(raw[9:12], "little"), raw[12], raw[13]
    need(flags == 0 and codec <= 2 and 1 <= stored <= STORED_MAX, "place")
    need(pack in packs and offset >= 64 and offset + stored + 48 <= packs[pack], "place outside")
    return pack, offset, stored, codec


def read_top(data, packs):
    need(24 <= len(data) <= BLOCK_MAX and data[:8] == b"LARDTOP\0", "top")
    version, tree, maps, zero = struct.unpack_from("<4I", data, 8)
    need(version == 1 and tree >= 1 and zero == 0 and len(data) == 24 + 50 * (tree + maps), "top")
    rows = []
    for at in range(24, len(data), 50):
        plain = int.from_bytes(data[at + 32 : at + 36], "little")
        need(1 <= plain <= BLOCK_MAX, "plain length")
        rows.append((data[at : at + 32].hex(), plain, read_place(data[at + 36 : at + 50], packs)))
    return rows[:tree], rows[tree:]


# ---- records ----

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
     0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def plus(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    if a == b:
        slope = 3 * (a[0] ** 2 - 1) * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope**2 - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def times(k, point):
    total = None
    while k:
        if k & 1:
            total = plus(total, point)
        point = plus(point, point)
        k >>= 1
    return total


def signed(point, text, signature):
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if not (0 < r < N and 0 < s < N):
        return False
    digest = int.from_bytes(hashlib.sha256(text).digest(), "big")
    inverse = pow(s, -1, N)
    found = plus(times(digest * inverse % N, G), times(r * inverse % N, point))
    return found is not None and found[0] % N == r


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def unb64(text):
    need(all(c in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" for c in text), "base64url")
    need(len(text) % 4 != 1, "base64url")
    data = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    need(b64(data) == text, "base64url")
    return data


def read_key(pem):
    der = base64.b64decode("".join(line for line in pem.split("\n") if not line.startswith("-")))
    x, y = der[-64:-32], der[-32:]
    jwk = b'{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}' % (b64(x), b64(y))
    return (int.from_bytes(x, "big"), int.from_bytes(y, "big")), b64(hashlib.sha256(jwk).digest())


def once(pairs):
    need(len({name for name, _ in pairs}) == len(pairs), "a name twice")
    return dict(pairs)


def read_record(data, pem):
    point, kid = read_key(pem)
    parts = data.split(b".")
    need(len(parts) == 3 and len(parts[0]) == 90 and len(parts[2]) == 86, "parts")
    need(unb64(parts[0]) == b'{"alg":"ES256","kid":"%s"}' % kid, "header")
    need(signed(point, parts[0] + b"." + parts[1], unb64(parts[2])), "signature")
    payload = unb64(parts[1])
    record = json.loads(payload, object_pairs_hook=once)
    need(record["format"] == 1, "format")
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    need(canonical.encode() == payload, "not as a writer writes it")
    numbers = [pack["no"] for pack in record["packs"]]
    need(numbers == sorted(set(numbers)), "packs")
    return record


# ---- the golden files ----


def load(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def check_parts(record, parts):
    packs = {pack["no"]: pack["size"] for pack in record["packs"]}
    tree, top, places = parts["sample.tree"], parts["sample.top"], parts["sample.map"]
    need(hashlib.sha256(top).hexdigest() == record["top"]["id"], "id of top")
    need(len(top) == record["top"]["plain"], "length of top")
    tree_rows, map_rows = read_top(top, packs)
    for rows, data, length in ((tree_rows, tree, "tree_bytes"), (map_rows, places, "map_bytes")):
        need(rows[0][:2] == (hashlib.sha256(data).hexdigest(), len(data)), "row of top")
        need(len(data) == record["totals"][length], length)
    need(hashlib.sha256(tree).hexdigest() == record["tree"], "digest of tree")
    totals = totals_of(read_tree(tree))
    need(all(record["totals"][name] == totals[name] for name in totals), "totals")
    need(len(places) == 14 * totals["blocks"], "length of map")
    for at in range(0, len(places), 14):
        read_place(places[at : at + 14], packs)


def refuses(action):
    try:
        action()
    except (Refused, ValueError, KeyError):
        return True
    return False


def check_release(parts):
    record = read_record(parts["sample.record"], parts["key.pub"].decode())
    check_parts(record, parts)
    return record


def damage_of_release(parts):
    """Every part with a bit changed, and cut: the release notices, since all hangs on the signature (which is slow
    here, so the record is tried at every 61st byte)."""
    record = check_release(parts)
    for name in ("sample.record", "sample.top", "sample.tree", "sample.map"):
        check = check_release if name == "sample.record" else lambda changed: check_parts(record, changed)
        for at in range(0, len(parts[name]), 61 if name == "sample.record" else 1):
            bad = bytearray(parts[name])
            bad[at] ^= 1 << at % 8
            for changed in (bytes(bad), parts[name][:at]):
                if not refuses(lambda: check(dict(parts, **{name: changed}))):
                    return "%s with damage at %d" % (name, at)
    return ""


def damage_of_tree(data):
    for at in range(len(data)):
        if not refuses(lambda: read_tree(data[:at])):
            return "a cut at %d is not noticed" % at
    return ""


def report(name, why):
    print("not ok %s: %s" % (name, why) if why else "ok %s" % name)
    return bool(why)


def check_golden(folder):
    failed = False
    names = [name for name in sorted(os.listdir(folder)) if name.endswith(".tree")]
    for name in names:
        data = load(folder, name)
        try:
            same = listing(read_tree(data)) == load(folder, name + ".txt").decode()
            why = damage_of_tree(data) if same else "its listing differs"
        except Refused as refusal:
            why = "refused: %s" % refusal
        failed |= report("read %s" % name, why)
    parts = {name: load(folder, name) for name in os.listdir(folder)}
    try:
        why = damage_of_release(parts)
    except Refused as refusal:
        why = "refused: %s" % refusal
    failed |= report("read the release", why)
    return 1 if failed or not names else 0


def main(arguments):
    if not arguments:
        return check_golden(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trees"))
    for path in arguments:
        try:
            sys.stdout.write(listing(read_tree(load("", path))))
        except Refused as refusal:
            print("%s: refused: %s" % (path, refusal), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
