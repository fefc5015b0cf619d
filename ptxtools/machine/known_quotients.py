"""What the routines compute that ptxas brings for `div` and `rem` of 64 bits, as digests (`digest`) of words that they
leave: of `a.low`, `a.high`, `b.low`, `b.high`.

ptxas 11.8 to 13.5 brings one form up to sm_100; for sm_120, with instructions of 64 bits, it changed from one to the
next. `tests/analysis/test_machine_quotients.py` has all kinds assembled and computes what they give.
"""

from __future__ import annotations

from ptxtools.access.template import Op

_ROWS: tuple[tuple[str, str, Op, bool], ...] = (  # digests of the low and of the high word; whether it is signed
    # up to sm_100
    ("8fb0053f39cbba7b0efc4bb640db4a1f", "7ce179de6c9bb83504b8375b0004fc6a", Op.DIV, False),
    ("76aa0a13c739566c224e17b9e69db335", "d817545c8e788176c3176194546c3408", Op.DIV, True),
    ("0331cb322800c252567feecaff8dab75", "19ee427eeca4a1a91bc8a98ae49920fc", Op.REM, False),
    ("f0f0f4ba1aea1e7b5d58566570bf1c4a", "0980e1f036cc4ec963b6e72f8ae5681c", Op.REM, True),
    # sm_120, ptxas 12.8
    ("fb24ffe5bf7c4b433e3e2e235116e5bb", "8905a1168d1c33416564966323eccfed", Op.DIV, True),
    ("103745974c684456e93edc54193a3349", "94d8d4b86581a4136b0fd33017e3541f", Op.REM, True),
    # sm_120, ptxas 12.8 to 13.0
    ("50933e52b1c6865ef7190ad6172bb0ea", "abd24c32c5135cb4f079d5524eb50351", Op.DIV, False),
    # sm_120, ptxas 13.0
    ("8abd01937fc72b60bfcfd076c6172077", "5d6c83ad3816444924df75ae73a6e853", Op.DIV, True),
    ("d2dafb7989eb6d991b04b62c959281ce", "bddd091aeca893a3e0004b3fb951d5ae", Op.REM, False),
    ("c9ea56f2b5fbc25b93c36de7edea31e5", "519cd420015d22ece4d7470ab5e9233d", Op.REM, True),
    # sm_120, ptxas 13.5
    ("41a38ea8c1bc7540292f4434a7177216", "25fd685468f202349965a35710205f8a", Op.DIV, False),
    ("0fd04287f9277be730c2dc01173ed3ff", "b57ed8f7029cd85e6ce285c3e699ba4a", Op.DIV, True),
    ("e42b43073a9158ba21520c1c3c729027", "2b4b223857b7f659c43859b513b527ee", Op.REM, False),
    ("a9d1a7d605931f0f7e515679359aa91e", "3771f9d9b0ce52dc54135ee225abd0ab", Op.REM, True),
)
KNOWN = {row[half]: (*row[2:], half) for row in _ROWS for half in (0, 1)}
