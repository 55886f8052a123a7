"""The elements of a matrix product's factors as the kernels want them: A in one run, B packed for 16 sums at a time."""

from dataclasses import dataclass

from toolchain.emulator.native.function import c_type
from toolchain.isa.semantics.contraction import Contraction
from toolchain.spec.model import ScalarType, View

BLOCK = 16


@dataclass(frozen=True)
class Factors:
    """number: which product of the machine. sums: group lanes (before padding to blocks). depth: summed lanes.

    order: byte in B's element of (sum, summed lane), row-major. a_kind, b_kind: their scalars.
    """

    number: int
    sums: int
    depth: int
    order: tuple[int, ...]
    b_bytes: int
    a_kind: ScalarType
    b_kind: ScalarType

    @property
    def blocks(self) -> int:
        """Blocks of 16 sums."""
        return -(-self.sums // BLOCK)

    @property
    def bytes_fit(self) -> bool:
        """Whether the byte instruction applies."""
        return self.depth % 4 == 0 and self.a_kind.bits == 8 and self.b_kind.bits == 8 and self.b_kind.signed

    @property
    def packed(self) -> int:
        """Bytes of one packed block in either form (the plain one keeps B's scalars as they are)."""
        return self.depth * BLOCK * self.b_kind.bits // 8


def factors(c: Contraction, lanes: dict[str, int], number: int) -> Factors | None:
    """How the factors are stored; None where the lanes of A do not follow each other."""
    a, b = c.a.view, c.b.view
    if any(k.bits not in (8, 16) for k in (a.element.scalar, b.element.scalar)) or a.element.record or b.element.record:
        return None
    sum_lanes = tuple(lane for lane in c.a.lanes or () if lane in c.sum_lanes)
    size = a.element.scalar.bits // 8
    starts = lane_offsets(a, tuple(map(str, c.a.lanes or ())), tuple(map(str, sum_lanes)), lanes)
    if starts != [n * size for n in range(len(starts))]:
        return None
    order = lane_offsets(b, tuple(map(str, c.b.lanes or ())), (*c.group_lanes, *map(str, sum_lanes)), lanes)
    depth = len(starts)
    return Factors(number, len(order) // depth, depth, tuple(order), b.element.bytes, a.element.scalar, b.element.scalar)


def lane_offsets(view: View, lanes: tuple[str, ...], over: tuple[str, ...], extents: dict[str, int]) -> list[int]:
    """The bytes of an element's lanes, in row-major order of the lane names `over`, other lanes at 0."""
    total = 1
    for lane in over:
        total *= extents[lane]
    result: list[int] = []
    for number in range(total):
        rest, at = number, dict.fromkeys(lanes, 0)
        for lane in reversed(over):
            rest, at[lane] = divmod(rest, extents[lane])
        flat = 0
        for lane in lanes:
            flat = flat * extents[lane] + at[lane]
        result.append(view.offsets[flat])
    return result


def packing_functions(f: Factors) -> list[str]:
    """pack_N(to, step, from): every block of an element of B, `step` bytes apart; bytes where the instruction exists, else plain."""
    plain = _plain(f)
    if not f.bytes_fit:
        return plain
    return ["#if TW_VNNI", *_bytes(f), "#else", *plain, "#endif"]


def _plain(f: Factors) -> list[str]:
    kind, size = c_type(f.b_kind), f.b_kind.bits // 8
    table = [f.order[o * f.depth + k] // size if o < f.sums else -1 for block in range(f.blocks) for k in range(f.depth) for o in _block(block)]
    count = f.depth * BLOCK
    return [
        f"static const int16_t order_{f.number}[] = {{ {', '.join(map(str, table))} }};",
        f"static void pack_{f.number}(int8_t *to, int64_t step, const uint8_t *from)",
        f"{{ for (int b = 0; b < {f.blocks}; b++) for (int i = 0; i < {count}; i++) {{",
        f"    const int at = order_{f.number}[b * {count} + i]; {kind} x = 0;",
        f"    if (at >= 0) memcpy(&x, from + at * {size}, {size});",
        f"    memcpy(to + b * step + i * {size}, &x, {size}); }} }}",
    ]


def _block(block: int) -> range:
    return range(block * BLOCK, (block + 1) * BLOCK)


def _bytes(f: Factors) -> list[str]:
    """Quads of summed lanes side by side; a byte permutation for each 64 bytes where the CPU has one."""
    rows = [
        [f.order[o * f.depth + 4 * q + k] if o < f.sums else -1 for o in _block(block) for k in range(4)]
        for block in range(f.blocks)
        for q in range(f.depth // 4)
    ]
    flat = [at for row in rows for at in row]
    shuffles: list[str] = []
    for number, row in enumerate(rows):
        block, q = divmod(number, f.depth // 4)
        shuffles.append(f"    {{ const __m512i at = _mm512_loadu_si512(low_{f.number} + {number * 64}); __m512i x = _mm512_setzero_si512();")
        for chunk in sorted({at // 64 for at in row if at >= 0}):
            mask = sum(1 << i for i, at in enumerate(row) if at >= 0 and at // 64 == chunk)
            left = min(64, f.b_bytes - chunk * 64)
            read = f"_mm512_maskz_loadu_epi8(UINT64_C({(1 << left) - 1:#x}), from + {chunk * 64})"
            shuffles.append(f"      x = _mm512_or_si512(x, _mm512_maskz_permutexvar_epi8(UINT64_C({mask:#x}), at, {read}));")
        shuffles.append(f"      _mm512_storeu_si512(to + {block} * step + {q * 64}, x); }}")
    return [
        "#ifdef __AVX512VBMI__",
        f"static const uint8_t low_{f.number}[] = {{ {', '.join(str(max(at, 0) % 64) for at in flat)} }};",
        f"static void pack_{f.number}(int8_t *to, int64_t step, const uint8_t *from)",
        "{", *shuffles, "}",
        "#else",
        f"static const int16_t order_{f.number}[] = {{ {', '.join(map(str, flat))} }};",
        f"static void pack_{f.number}(int8_t *to, int64_t step, const uint8_t *from)",
        f"{{ for (int b = 0; b < {f.blocks}; b++) for (int i = 0; i < {f.packed}; i++) {{",
        f"    const int at = order_{f.number}[b * {f.packed} + i]; to[b * step + i] = at < 0 ? 0 : (int8_t)from[at]; }} }}",
        "#endif",
    ]  # fmt: skip
