r"""Vectors of fixed width inside Numba loops.

The loops of this package work on very short vectors: the logits of one entry (as many as there are channels) and
the message of one neighbour (as many as there are hidden columns). Written as plain scalar loops they stay scalar
or go through scratch arrays in memory. Here they are LLVM vector values, so that a message of 16 columns is one
register on AVX-512, two on AVX2 and four on NEON, and nothing but loads and stores touches memory.

A vector has a type (``float32`` or ``float64``) and a number of lanes that is a compile-time constant. All
functions below are intrinsics: they can be called from compiled code only. Offsets count elements from the start
of a C-contiguous array, whatever its number of dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending
from numba.core import cgutils, types

# Sums may be reordered and contracted; infinities and NaN keep their meaning, since a loss that turns NaN must be seen.
FASTMATH = ("reassoc", "contract", "nsz", "arcp")

# Exponentials below this are 0, which next to a largest term of 1 changes no digit. Products of two that are not stay
# above the subnormal numbers, which would take the processor some hundred cycles each: with German's raw features,
# whose logits are in the thousands, that was most of an epoch.
NOTHING = {"float32": 2e-19, "float64": 2e-154}

# Seen by the type checker these would have the signature of their generators.
intrinsic: Any = extending.intrinsic
_get_function: Any = cgutils.get_or_insert_function
_Type: Any = types.Type
_PrimitiveModel: Any = extending.models.PrimitiveModel

_INT32 = ir.IntType(32)
_CACHE_LINE = 64  # bytes


class Vector(_Type):  # type: ignore[misc]
    """Numba type of ``lanes`` numbers of type ``dtype`` in registers."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype = dtype
        self.lanes = lanes
        super().__init__(name=f"Vector({dtype}, {lanes})")


@extending.register_model(Vector)
class _VectorModel(_PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        element = ir.FloatType() if fe_type.dtype == types.float32 else ir.DoubleType()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.lanes))


# --- building blocks of LLVM code ---------------------------------------------------------------------------------


def _shuffle(builder: Any, vector: Any, lanes: Sequence[int], second: Any = None) -> Any:
    """Returns the given lanes of ``vector`` (followed by those of ``second``)."""
    if second is None:
        second = ir.Constant(vector.type, ir.Undefined)
    return builder.shuffle_vector(vector, second, ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes)))


def _constant(vector_type: Any, value: float) -> Any:
    return ir.Constant(vector_type, [value] * vector_type.count)


def _call(builder: Any, name: str, *operands: Any) -> Any:
    """Calls ``llvm.<name>`` on vectors of one type; the compiler turns it into the best instruction there is."""
    vector_type = operands[0].type
    bits = 32 if isinstance(vector_type.element, ir.FloatType) else 64
    function_type = ir.FunctionType(vector_type, [vector_type] * len(operands))
    function = _get_function(builder.module, function_type, f"llvm.{name}.v{vector_type.count}f{bits}")
    return builder.call(function, operands, fastmath=FASTMATH)


def _add(builder: Any, a: Any, b: Any) -> Any:
    return builder.fadd(a, b, flags=FASTMATH)


def _maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _within_groups(builder: Any, vector: Any, group: int, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """Combines each run of ``group`` lanes; every lane of the run receives the result."""
    lanes = vector.type.count
    if group & (group - 1) == 0:  # butterfly: log2(group) steps
        step = 1
        while step < group:
            vector = combine(builder, vector, _shuffle(builder, vector, [lane ^ step for lane in range(lanes)]))
            step *= 2
        return vector
    result = vector
    for turn in range(1, group):
        rotated = [lane - lane % group + (lane + turn) % group for lane in range(lanes)]
        result = combine(builder, result, _shuffle(builder, vector, rotated))
    return result


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [offset])


# --- memory -------------------------------------------------------------------------------------------------------


@intrinsic(prefer_literal=True)
def load(typing_context: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """Reads ``lanes`` consecutive elements."""
    vector = Vector(array.dtype, lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, array, arguments[0], arguments[1])
        pointer = builder.bitcast(pointer, context.get_value_type(vector).as_pointer())
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return vector(array, types.intp, lanes), generate


@intrinsic(prefer_literal=True)
def store(typing_context: Any, array: Any, offset: Any, vector: Any) -> Any:
    """Writes a vector to consecutive elements."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, array, arguments[0], arguments[1])
        pointer = builder.bitcast(pointer, arguments[2].type.as_pointer())
        builder.store(arguments[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic(prefer_literal=True)
def prefetch(typing_context: Any, array: Any, offset: Any, count: Any) -> Any:
    """Asks for ``count`` consecutive elements that will be read soon; never faults, never changes a result."""
    per_line = _CACHE_LINE * 8 // array.dtype.bitwidth
    # One address per line; the last element too, which is on a further line where the first is not at a line's start.
    positions = [*range(0, count.literal_value, per_line), count.literal_value - 1]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer] + [_INT32] * 3)
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], function_type)
        read, keep, data = (ir.Constant(_INT32, value) for value in (0, 3, 1))
        for position in positions:
            place = builder.add(arguments[1], ir.Constant(arguments[1].type, position))
            pointer = builder.bitcast(_pointer(context, builder, array, arguments[0], place), byte_pointer)
            builder.call(function, [pointer, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp, count), generate


# --- making vectors and taking them apart -------------------------------------------------------------------------


@intrinsic(prefer_literal=True)
def zeros(typing_context: Any, dtype: Any, lanes: Any) -> Any:
    """``lanes`` zeros; ``dtype`` is that of an array, ``array.dtype``."""
    vector = Vector(dtype.dtype, lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(dtype, lanes), generate


@intrinsic(prefer_literal=True)
def splat(typing_context: Any, scalar: Any, lanes: Any) -> Any:
    """The same number in every lane."""
    vector = Vector(scalar, lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(context.get_value_type(vector), ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], ir.Constant(_INT32, 0))
        return _shuffle(builder, first, [0] * vector.lanes)

    return vector(scalar, lanes), generate


@intrinsic
def pack(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Four lanes from three ``float64`` numbers: ``a b c 0``."""
    vector = Vector(types.float64, 4)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = ir.Constant(context.get_value_type(vector), None)
        for position, value in enumerate(arguments):
            result = builder.insert_element(result, value, ir.Constant(_INT32, position))
        return result

    return vector(types.float64, types.float64, types.float64), generate


@intrinsic(prefer_literal=True)
def lane(typing_context: Any, vector: Any, position: Any) -> Any:
    """One number of a vector."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], ir.Constant(_INT32, position.literal_value))

    return vector.dtype(vector, position), generate


@intrinsic(prefer_literal=True)
def half(typing_context: Any, vector: Any, which: Any) -> Any:
    """The first (0) or the second (1) half of the lanes."""
    lanes = vector.lanes // 2
    start = which.literal_value * lanes

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _shuffle(builder, arguments[0], range(start, start + lanes))

    return Vector(vector.dtype, lanes)(vector, which), generate


@intrinsic
def join(typing_context: Any, a: Any, b: Any) -> Any:
    """The lanes of ``a`` followed by those of ``b``; the inverse of `half`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _shuffle(builder, arguments[0], range(2 * a.lanes), arguments[1])

    return Vector(a.dtype, 2 * a.lanes)(a, a), generate


@intrinsic
def swap(typing_context: Any, vector: Any) -> Any:
    """The two halves of the lanes, exchanged."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = vector.lanes
        return _shuffle(builder, arguments[0], [(lane + lanes // 2) % lanes for lane in range(lanes)])

    return vector(vector), generate


@intrinsic(prefer_literal=True)
def repeat(typing_context: Any, vector: Any, times: Any) -> Any:
    """Every lane ``times`` times in a row: ``a b`` becomes ``a a b b``."""
    count = times.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _shuffle(builder, arguments[0], [lane // count for lane in range(vector.lanes * count)])

    return Vector(vector.dtype, vector.lanes * count)(vector, times), generate


@intrinsic(prefer_literal=True)
def tile(typing_context: Any, vector: Any, times: Any) -> Any:
    """The whole vector ``times`` times: ``a b`` becomes ``a b a b``."""
    lanes = vector.lanes * times.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _shuffle(builder, arguments[0], [lane % vector.lanes for lane in range(lanes)])

    return Vector(vector.dtype, lanes)(vector, times), generate


# --- arithmetic ---------------------------------------------------------------------------------------------------


def _elementwise(method: str, meaning: str) -> Any:
    @intrinsic
    def operation(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, method)(*arguments, flags=FASTMATH)

        return a(a, a), generate

    operation.__doc__ = meaning
    return operation


add = _elementwise("fadd", "a + b, lane by lane.")
sub = _elementwise("fsub", "a - b, lane by lane.")
mul = _elementwise("fmul", "a * b, lane by lane.")
div = _elementwise("fdiv", "a / b, lane by lane.")


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """A * b + c, lane by lane, in one instruction where the machine has it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "fmuladd", *arguments)

    return a(a, a, a), generate


@intrinsic
def relu(typing_context: Any, vector: Any) -> Any:
    """Negative lanes become 0; NaN stays NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(arguments[0].type, None)
        return builder.select(builder.fcmp_ordered("<", arguments[0], zero), zero, arguments[0])

    return vector(vector), generate


@intrinsic
def where_positive(typing_context: Any, condition: Any, vector: Any) -> Any:
    """The lanes of ``vector`` where ``condition`` is not 0 or negative, 0 elsewhere: the derivative of `relu`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(arguments[0].type, None)
        return builder.select(builder.fcmp_ordered("<=", arguments[0], zero), zero, arguments[1])

    return vector(vector, vector), generate


@intrinsic
def exp_of_nonpositive(typing_context: Any, vector: Any) -> Any:
    r"""Exponential of each lane, for lanes that are at most 0, to one or two units in the last place.

    With :math:`n = \mathrm{round}(x / \ln 2)` and :math:`r = x - n \ln 2`, it is :math:`2^n e^r`: the power of two is
    written into the exponent bits, and the Taylor series of :math:`e^r` on :math:`|r| \le 0.347` is short. LLVM's own
    ``exp`` would call the scalar library function lane by lane. Results below ``NOTHING`` are 0.
    """
    double = vector.dtype == types.float64
    lowest = math.log(NOTHING["float64" if double else "float32"])
    degree = 13 if double else 7
    # ln 2 in two parts, the first with so few bits that n times it is exact.
    high = 0.693145751953125 if double else 0.693359375
    low = 1.4286068203094172321e-06 if double else -2.1219444005469058277e-04
    exponent_bias, mantissa_bits = (1023, 52) if double else (127, 23)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        floats = arguments[0].type
        integers = ir.VectorType(ir.IntType(64 if double else 32), vector.lanes)
        # written so that NaN passes through
        too_low = builder.fcmp_ordered("<", arguments[0], _constant(floats, lowest))
        x = builder.select(too_low, _constant(floats, lowest), arguments[0])
        n = _call(builder, "rint", builder.fmul(x, _constant(floats, 1 / math.log(2))))
        r = _call(builder, "fmuladd", n, _constant(floats, -high), x)
        r = _call(builder, "fmuladd", n, _constant(floats, -low), r)
        series = _constant(floats, 1 / math.factorial(degree))
        for power in range(degree - 1, -1, -1):
            series = _call(builder, "fmuladd", series, r, _constant(floats, 1 / math.factorial(power)))
        exponent = builder.add(builder.fptosi(n, integers), _constant(integers, exponent_bias))
        power_of_two = builder.bitcast(builder.shl(exponent, _constant(integers, mantissa_bits)), floats)
        return builder.select(too_low, ir.Constant(floats, None), builder.fmul(series, power_of_two))

    return vector(vector), generate


# --- sums and maxima across lanes ---------------------------------------------------------------------------------


@intrinsic(prefer_literal=True)
def group_total(typing_context: Any, vector: Any, group: Any) -> Any:
    """The sum of each run of ``group`` lanes, in every lane of the run."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _within_groups(builder, arguments[0], group.literal_value, _add)

    return vector(vector, group), generate


@intrinsic(prefer_literal=True)
def group_maximum(typing_context: Any, vector: Any, group: Any) -> Any:
    """The largest of each run of ``group`` lanes, in every lane of the run."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _within_groups(builder, arguments[0], group.literal_value, _maximum)

    return vector(vector, group), generate


@intrinsic(prefer_literal=True)
def sum_runs(typing_context: Any, vector: Any, group: Any) -> Any:
    """The sum of each run of ``group`` lanes, once: ``a b c d`` with groups of 2 becomes ``a+b c+d``."""
    width = group.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result, remaining = arguments[0], width
        while remaining % 2 == 0:
            lanes = result.type.count
            even, odd = (_shuffle(builder, result, range(start, lanes, 2)) for start in (0, 1))
            result, remaining = _add(builder, even, odd), remaining // 2
        parts = [_shuffle(builder, result, range(start, result.type.count, remaining)) for start in range(remaining)]
        result = parts[0]
        for part in parts[1:]:
            result = _add(builder, result, part)
        return result

    return Vector(vector.dtype, vector.lanes // width)(vector, group), generate


@intrinsic(prefer_literal=True)
def sum_strided(typing_context: Any, vector: Any, lanes: Any) -> Any:
    """The sum of consecutive pieces of ``lanes`` lanes: ``a b c d`` in pieces of 2 becomes ``a+c b+d``."""
    width = lanes.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result, pieces = arguments[0], vector.lanes // width
        while pieces % 2 == 0:
            middle = result.type.count // 2
            lower, upper = (_shuffle(builder, result, range(start, start + middle)) for start in (0, middle))
            result, pieces = _add(builder, lower, upper), pieces // 2
        parts = [_shuffle(builder, result, range(start, start + width)) for start in range(0, pieces * width, width)]
        result = parts[0]
        for part in parts[1:]:
            result = _add(builder, result, part)
        return result

    return Vector(vector.dtype, width)(vector, lanes), generate
