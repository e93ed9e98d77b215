#!/usr/bin/env python3
"""A reader of packs, written from docs/formats/pack.md alone, with nothing but the standard library.

read_pack.py FILE...   prints each pack's id, sections and blocks; exit 1 with one line when a check fails
read_pack.py           reads the packs of this folder against IDS, then every one of them with a bit changed

Blocks with codec none are digested; lz4 and zstd need more than the standard library, so of those blocks
only the checksum of the stored form is tested, and in an encrypted pack the tag. The key of the golden packs is 00 01 .. 1f.
"""
import hashlib
import hmac
import os
import struct
import sys

HEADER, ROW, ENTRY, TRAILER = 64, 64, 48, 32
NONE, LZ4, ZSTD = 0, 1, 2
CODECS = ("none", "lz4", "zstd")
PLAIN_MAX = 262144


class Refused(Exception):
    pass


# ---- XXH3-64, seed 0, default secret (xxHash 0.8) ----

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
P32 = (0, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
M64 = (1 << 64) - 1


def u32(b, at=0):
    return struct.unpack_from("<I", b, at)[0]


def u64(b, at=0):
    return struct.unpack_from("<Q", b, at)[0]


def fold(a, b):
    product = a * b
    return (product ^ (product >> 64)) & M64


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & M64
    return h ^ (h >> 32)


def avalanche_64(h):
    h ^= h >> 33
    h = h * P64[2] & M64
    h ^= h >> 29
    h = h * P64[3] & M64
    return h ^ (h >> 32)


def rotate(h, n):
    return (h << n | h >> (64 - n)) & M64


def short(b):
    n = len(b)
    if n > 8:
        low = u64(b) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
        high = u64(b, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche((n + swapped + high + fold(low, high)) & M64)
    if n >= 4:
        h = (u32(b, n - 4) + (u32(b) << 32)) ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = h * 0x9FB21C651E98DF25 & M64
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & M64
        return h ^ (h >> 28)
    if n:
        combined = b[0] << 16 | b[n >> 1] << 24 | b[n - 1] | n << 8
        return avalanche_64(combined ^ u32(SECRET) ^ u32(SECRET, 4))
    return avalanche_64(u64(SECRET, 56) ^ u64(SECRET, 64))


def mix(b, at, secret_at):
    return fold(u64(b, at) ^ u64(SECRET, secret_at), u64(b, at + 8) ^ u64(SECRET, secret_at + 8))


def middle(b):
    n = len(b)
    acc = n * P64[1]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += mix(b, 16 * i, 32 * i) + mix(b, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(acc & M64)
    for i in range(8):
        acc += mix(b, 16 * i, 16 * i)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix(b, 16 * i, 16 * (i - 8) + 3)
    return avalanche((acc + mix(b, n - 16, 136 - 17)) & M64)


def stripe(acc, b, at, secret_at):
    for i in range(8):
        value = u64(b, at + 8 * i)
        key = value ^ u64(SECRET, secret_at + 8 * i)
        acc[i ^ 1] = (acc[i ^ 1] + value) & M64
        acc[i] = (acc[i] + (key & 0xFFFFFFFF) * (key >> 32)) & M64


def long(b):
    n = len(b)
    acc = [P32[3], P64[1], P64[2], P64[3], P64[4], P32[2], P64[5], P32[1]]
    per_block = (len(SECRET) - 64) // 8
    for s in range((n - 1) // 64):
        stripe(acc, b, 64 * s, 8 * (s % per_block))
        if s % per_block == per_block - 1:
            for i in range(8):
                acc[i] ^= acc[i] >> 47
                acc[i] = (acc[i] ^ u64(SECRET, len(SECRET) - 64 + 8 * i)) * P32[1] & M64
    stripe(acc, b, n - 64, len(SECRET) - 64 - 7)
    result = n * P64[1]
    for i in range(4):
        result += fold(acc[2 * i] ^ u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ u64(SECRET, 11 + 16 * i + 8))
    return avalanche(result & M64)


def xxh3(b):
    return short(b) if len(b) <= 16 else middle(b) if len(b) <= 240 else long(b)


# ---- AES-256-GCM (FIPS 197, SP 800-38D), HKDF (RFC 5869) ----


def times_two(a):
    return (a << 1 ^ (0x11B if a & 0x80 else 0)) & 0xFF


def make_sbox():
    box, p, q = [0] * 256, 1, 1
    while True:
        p = p ^ times_two(p)
        for shift in (1, 2, 4):
            q = (q ^ q << shift) & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        box[p] = q ^ (q << 1 | q >> 7) & 0xFF ^ (q << 2 | q >> 6) & 0xFF ^ (q << 3 | q >> 5) & 0xFF ^ (q << 4 | q >> 4) & 0xFF ^ 0x63
        if p == 1:
            box[0] = 0x63
            return box


SBOX = make_sbox()


def expand_key(key):
    words, rcon = [list(key[i : i + 4]) for i in range(0, 32, 4)], 1
    for i in range(8, 60):
        word = list(words[-1])
        if i % 8 == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= rcon
            rcon = times_two(rcon)
        elif i % 8 == 4:
            word = [SBOX[b] for b in word]
        words.append([a ^ b for a, b in zip(word, words[i - 8])])
    return [sum(words[4 * r : 4 * r + 4], []) for r in range(15)]


def aes(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0])]
    for r in range(1, 15):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if r < 14:
            mixed = []
            for c in range(0, 16, 4):
                column = state[c : c + 4]
                every = column[0] ^ column[1] ^ column[2] ^ column[3]
                mixed += [column[i] ^ every ^ times_two(column[i] ^ column[(i + 1) % 4]) for i in range(4)]
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[r])]
    return bytes(state)


def multiply(x, h):
    z = 0
    for i in range(127, -1, -1):
        if x >> i & 1:
            z ^= h
        h = h >> 1 ^ (0xE1 << 120 if h & 1 else 0)
    return z


def gcm_open(key, nonce, data, sealed):
    """The plain bytes, or None when the tag does not match."""
    keys, text, tag = expand_key(key), sealed[:-16], sealed[-16:]
    h, y = int.from_bytes(aes(keys, bytes(16)), "big"), 0
    padded = data + bytes(-len(data) % 16) + text + bytes(-len(text) % 16) + struct.pack(">QQ", 8 * len(data), 8 * len(text))
    for at in range(0, len(padded), 16):
        y = multiply(y ^ int.from_bytes(padded[at : at + 16], "big"), h)
    first = int.from_bytes(aes(keys, nonce + b"\0\0\0\1"), "big")
    if (y ^ first).to_bytes(16, "big") != tag:
        return None
    stream = b"".join(aes(keys, nonce + struct.pack(">I", 2 + i)) for i in range((len(text) + 15) // 16))
    return bytes(a ^ b for a, b in zip(text, stream))


def hkdf(secret, salt, info):
    middle_key = hmac.digest(salt or bytes(32), secret, "sha256")
    return hmac.digest(middle_key, info + b"\1", "sha256")


# ---- packs with keys ----

XOR, ENCRYPTED, TAG = 1, 2, 16
GOLDEN_KEY = bytes(range(32))


def row_of(entry, offset, stored):
    digest, _, _, plain, codec, _ = entry
    return digest + offset.to_bytes(6, "little") + struct.pack("<IIBB", stored, plain, codec, 0)


def contents_of(b, entries, inner, align):
    """The digest that the salt is made of: index and checksums of the pack as it was before."""
    end, rows = HEADER, {}
    for entry in sorted(entries, key=lambda e: e[1]):
        offset = (end + align - 1) // align * align if entry[4] == NONE else end
        end = offset + len(inner[entry[0]])
        rows[entry[0]] = row_of(entry, offset, len(inner[entry[0]]))
    order = [entry[0] for entry in entries]
    text = b"".join(rows[i] for i in order) + b"".join(struct.pack("<Q", xxh3(inner[i])) for i in order)
    return hashlib.sha256(text).digest()


def open_blocks(b, rows, entries, key):
    """The blocks' inner forms, after every check that needs the key."""
    flags, align, salt = u32(b, 12), u32(b, 16), b[24:40]
    inner = {}
    block_key, proof_key = hkdf(key, salt, b"larder pack 1: blocks"), hkdf(key, salt, b"larder pack 1: proof")
    for entry in entries:
        digest, offset, stored, plain, codec, _ = entry
        body = b[offset : offset + stored]
        if flags == ENCRYPTED:
            nonce = struct.pack("<QI", offset, 0)
            inner[digest] = gcm_open(block_key, nonce, row_of(entry, offset, stored), body)
            need(inner[digest] is not None, "block %s: tag" % digest.hex())
        else:
            inner[digest] = bytes(a ^ digest[i % 32] for i, a in enumerate(body)) if flags == XOR else body
        need(codec != NONE or hashlib.sha256(inner[digest]).digest() == digest, "block %s: digest" % digest.hex())
    if flags == ENCRYPTED:
        text = b[:40]
        for kind, where, size, _, digest in rows:
            if kind not in (1, 3):
                text += struct.pack("<IQ", kind, size) + digest
        need(hmac.digest(proof_key, text, "sha256")[:24] == b[40:64], "proof")
        salt_key = hkdf(key, b"", b"larder pack 1: salt")
        need(hmac.digest(salt_key, contents_of(b, entries, inner, align), "sha256")[:16] == salt, "salt")
    return inner


# ---- the pack ----


def need(condition, why):
    if not condition:
        raise Refused(why)


def read_header(b):
    need(b[:8] == b"LARDPACK", "header: magic")
    version, flags, align, zero = struct.unpack_from("<IIII", b, 8)
    need(version == 1, "header: version %d" % version)
    need(flags in (0, XOR, ENCRYPTED), "header: flags %#x" % flags)
    need(align and align & (align - 1) == 0 and align <= 65536, "header: align %d" % align)
    need(zero == 0 and any(b[24:40]) == (flags == ENCRYPTED), "header: salt and zero bytes")
    need(flags == ENCRYPTED or not any(b[40:64]), "header: proof")
    return align, TAG if flags == ENCRYPTED else 0


def read_rows(b):
    position, length, zero, checksum = struct.unpack_from("<QIIQ", b, len(b) - TRAILER)
    need(b[-8:] == b"LARDTAIL", "trailer: magic")
    need(zero == 0, "trailer: zero bytes")
    need(length >= 16 and (length - 16) % ROW == 0 and (length - 16) // ROW <= 16, "trailer: table length %d" % length)
    need(position + length == len(b) - TRAILER, "trailer: table at %d, length %d" % (position, length))
    table = b[position : position + length]
    need(xxh3(table) == checksum, "table: checksum")
    need(table[:8] == b"LARDINDX", "table: magic")
    need(u32(table, 8) == (length - 16) // ROW and u32(table, 12) == 0, "table: head")
    rows = []
    for at in range(16, length, ROW):
        kind, flags, where, size, xxh = struct.unpack_from("<IIQQQ", table, at)
        need(kind > (rows[-1][0] if rows else 0), "row %d: kind %d" % (len(rows), kind))
        need(kind <= 5, "row %d: unknown kind %d" % (len(rows), kind))
        need(flags == 0, "row %d: flags %#x" % (len(rows), flags))
        rows.append((kind, where, size, xxh, table[at + 32 : at + 64]))
    need([r[0] for r in rows[:3]] == [1, 2, 3], "table: required sections")
    need(rows[0][1:3] == (0, HEADER), "row of the header")
    end = rows[1][1]
    need(end >= HEADER, "row of the entries: position %d" % end)
    for kind, where, size, _, _ in rows[1:]:
        need(where == end and size <= position - end, "section %d: at %d, length %d" % (kind, where, size))
        end += size
    need(end == position, "sections end at %d, table at %d" % (end, position))
    return rows, hashlib.sha256(table).hexdigest()


def read_sections(b, rows):
    sections = {}
    for kind, where, size, checksum, digest in rows:
        body = b[where : where + size]
        need(xxh3(body) == checksum, "section %d: checksum" % kind)
        need(hashlib.sha256(body).digest() == digest, "section %d: digest" % kind)
        sections[kind] = body
    return sections


def read_entries(sections, blocks_end, extra):
    raw, sums = sections[2], sections[3]
    need(len(raw) % ENTRY == 0 and len(sums) == len(raw) // ENTRY * 8, "entries and checksums: lengths")
    entries = []
    for i in range(len(raw) // ENTRY):
        one = raw[i * ENTRY : (i + 1) * ENTRY]
        offset = int.from_bytes(one[32:38], "little")
        stored, plain, codec, flags = struct.unpack_from("<IIBB", one, 38)
        need(codec <= ZSTD and flags == 0, "entry %d: codec %d, flags %#x" % (i, codec, flags))
        need(1 <= plain <= PLAIN_MAX, "entry %d: plain length %d" % (i, plain))
        inner = stored - extra
        need(inner == plain if codec == NONE else 1 <= inner < plain, "entry %d: stored length %d" % (i, stored))
        need(HEADER <= offset and offset + stored <= blocks_end, "entry %d: offset %d" % (i, offset))
        need(not entries or entries[-1][0] < one[:32], "entry %d: order" % i)
        entries.append((one[:32], offset, stored, plain, codec, u64(sums, 8 * i)))
    return entries


def check_blocks(b, entries, align, blocks_end):
    end = HEADER
    for digest, offset, stored, plain, codec, checksum in sorted(entries, key=lambda e: e[1]):
        begin = (end + align - 1) // align * align if codec == NONE else end
        need(offset == begin, "block %s: at %d, expected at %d" % (digest.hex(), offset, begin))
        need(not any(b[end:begin]), "gap at %d: not zero" % end)
        end = offset + stored
        body = b[offset:end]
        need(xxh3(body) == checksum, "block %s: checksum" % digest.hex())
    need(end == blocks_end, "blocks end at %d, sections begin at %d" % (end, blocks_end))


def read_pack(b):
    """Checks everything; gives the id, the rows and the entries."""
    need(len(b) >= 304, "%d bytes, an empty pack has 304" % len(b))
    align, extra = read_header(b)
    rows, pack_id = read_rows(b)
    entries = read_entries(read_sections(b, rows), rows[1][1], extra)
    check_blocks(b, entries, align, rows[1][1])
    return pack_id, rows, entries


# ---- commands ----


def show(path):
    with open(path, "rb") as file:
        whole = file.read()
    pack_id, rows, entries = read_pack(whole)
    if u32(whole, 12) != ENCRYPTED:
        open_blocks(whole, rows, entries, GOLDEN_KEY)
    print("pack", pack_id)
    for kind, where, size, _, _ in rows:
        print("section", kind, where, size)
    for digest, offset, stored, plain, codec, _ in entries:
        print("block", digest.hex(), offset, stored, plain, CODECS[codec])


def refuses(b):
    try:
        read_pack(b)
    except Refused:
        return True
    return False


def check_golden(folder):
    with open(os.path.join(folder, "IDS"), encoding="ascii") as file:
        ids = dict(reversed(line.split()) for line in file)
    failed = False
    for name in sorted(ids):
        with open(os.path.join(folder, name), "rb") as file:
            good = file.read()
        try:
            pack_id, rows, entries = read_pack(good)
            open_blocks(good, rows, entries, GOLDEN_KEY)
            why = "" if pack_id == ids[name] else "id %s, expected %s" % (pack_id, ids[name])
        except Refused as refusal:
            why = str(refusal)
        # Long packs are tried at every 61st byte, short ones at every byte.
        step = 1 if len(good) < 2000 else 61
        for at in range(0, len(good), step):
            bad = bytearray(good)
            bad[at] ^= 1 << at % 8
            if not why and not refuses(bytes(bad)):
                why = "a changed bit at %d is not noticed" % at
            if not why and not refuses(good[:at]):
                why = "a cut at %d is not noticed" % at
        print("not ok read %s: %s" % (name, why) if why else "ok read %s" % name)
        failed = failed or bool(why)
    return 1 if failed or not ids else 0


def main(arguments):
    if not arguments:
        return check_golden(os.path.join(os.path.dirname(os.path.abspath(__file__)), "packs"))
    for path in arguments:
        try:
            show(path)
        except Refused as refusal:
            print("%s: refused: %s" % (path, refusal), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
