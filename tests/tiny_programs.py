"""Semantics for the tiny machine that use every feature of the language; all engines must agree on them."""

from tests.tiny_machine import DOUBLE

HALVES = DOUBLE + "\ndef halves(x):\n    half = x // 2\n    return half, x - half\n"
TEXTS = {
    "lookups": "acc[0][o] = lookup(par[0][1, c], sat[0][o] & 3)\nacc[1][o] = lookup(acc[2][k] * k, max(min(acc[0][o], 3), 0))\n"
    "for i in range(n):\n    acc[i % 4][o] += lookup(par[i % 4][r, o], (acc[3][o] + i) % 3)\n",
    "lookups inside": "acc[0][o] = lookup(acc[1][c] + sum(par[0][r, o]), lookup(sat[0][k], o) & 3) if acc[0][o] > 3 else 5\n"
    "s[o]: i32 = acc[2][o] >> 8\nacc[1][o] = lookup(sat[1][c], s[o]) if s[o] >= 0 and s[o] < 4 else 7\n"
    "acc[2][o] = lookup(sat[1][c], s[o]) if a > 0 and s[o] < 4 and s[o] >= 0 else b\n",
    "all leaves": """\
k = ctl[b % 4]
p, q = halves(a)
for i in range(n), j in range(1, n + 1):
    s[o]: wrap(i32) = dot(par[i % 4][r, o], par.core(1 - core)[j % 4][r, c]) + cfg[b % 2].m * k.lo
    s[o] += sum(par[0][r, o]) - low8(arg[1])
    acc[p % 4][o] = clip(even(s[o], 3)) if not (a < 0 or m > 3) else away(max(s[o], q), 2)
    acc[0][o] += wrap(-s[o], u4) ^ ~(i << 2)
""",
    "branches": """\
if a < 0:
    s[o]: i8 = 1
elif a == 0:
    s[o]: i8 = 2
else:
    s[o]: i8 = num[3] & 15
s[o] = min(s[o], 5)
sat[0][o] = s[o]
""",
    "copies": "ctl[a] = dram.rec[b] if b > 3 else 0\none[1] = 3\nfeat[b % 2, -a] = dram.row[b]\n",
    "nothing": "pass\n",
    "a branch that does nothing": "if a:\n    pass\nelse:\n    one[0] = a\n",
    "running names": "x, y = halves(a)\nx, y = halves(x + y)\ny += x\nacc[0][o] = x - (y - 1)\n",
    "narrowing temporaries": "w[o]: wrap(i8) = m\nw[o] += 1\ns[o]: saturate(i8) = m\ns[o] += 1\nacc[0][o] = w[o]\nacc[1][o] = s[o]\n",
    "narrowing memories": "acc[a % 4][o] = (1 << 31) + m\nsat[b % 4][o] = m\nsat[b % 4][o] += m\n",
    "replicas with bounds of their own": "for i in range(way, n):\n    acc[i % 4][o] = acc[(i - 1) % 4][o] + 1\n",
    "a shared write of a temporary": "s[o]: i8 = clip(a + m)\nloop[a][o] = s[o]\n",
    "replicas on different paths": "if way == b % 2:\n    sat[0][o] = 7\nacc[1][o] += way + 1\n",
    "replicas": "feat[0, a] = dram.row[16 * way + 64 * core]\nif way == 1:\n    sat[0][o] = 7\nfor i in range(way + 1):\n    acc[i][o] += i + 1\n",
    "rings": "feat[b % 2, a] = dram.row[4]\nloop.wide[a][q] = 3\nloop[m][o] = clip(loop[a][o] + 1)\n",
    "another core": "par.core(1 - core)[0][r, c] = core + 1\n",
    "lanes in another order": "par[0][r, c] = par.turned[1][c, r]\nacc[0][o] = acc[0][3] + 1\n",
    "control data": "k = ctl[b % 4]\nacc[0][o] = k.lo * 100 + k.hi\nacc[1][o] = num[1] + cfg[b % 2].m + low8(arg[1])\n",
    "untaken sides": "acc[0][o] = acc[b][o] if b < 4 else 11\n",
    "iterations in sequence": "for i in range(1, n):\n    acc[i % 4][o] = acc[(i - 1) % 4][o] + 1\n",
    "a running maximum": "top = 0\nfor i in range(n):\n    top = max(top, i * (5 - i))\nacc[0][o] = top\n",
    "reductions": "acc[0][o] = sum(par[0][r, o])\nacc[1][o] = reduce_max(par[0][r, o])\nacc[2][o] = dot(par[0][r, o], par[0][r, c])\n",
    "same names in two loops": "for i in range(n):\n    one[i % 4] = 1\nfor i in range(2):\n    one[i] = i\ni_1 = 3\none[i_1] = 0\n",
}
