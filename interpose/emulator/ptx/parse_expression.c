/* Constant expressions: C's operators on 64-bit integers, and floating-point literals. Nesting is bounded. */
#include <string.h>

#include "parse.h"

#define NESTING_MAX 64u

struct operator {
    const char *text;
    uint8_t length, precedence;
};

/* Longer spellings first. */
static const struct operator operators[] = {
    {"||", 2, 1}, {"&&", 2, 2}, {"==", 2, 6}, {"!=", 2, 6}, {"<=", 2, 7}, {">=", 2, 7},
    {"<<", 2, 8}, {">>", 2, 8}, {"|", 1, 3},  {"^", 1, 4},  {"&", 1, 5},  {"<", 1, 7},
    {">", 1, 7},  {"+", 1, 9},  {"-", 1, 9},  {"*", 1, 10}, {"/", 1, 10}, {"%", 1, 10},
};

static struct tsr_number parse_binary(struct tsr_load *load, unsigned precedence, unsigned nesting);

static struct tsr_number integer(int64_t value, bool is_unsigned)
{
    return (struct tsr_number){is_unsigned ? TSR_NUMBER_UNSIGNED : TSR_NUMBER_SIGNED, (uint64_t)value};
}

static bool is_float(struct tsr_number number)
{
    return number.kind == TSR_NUMBER_F32 || number.kind == TSR_NUMBER_F64;
}

static void require_integer(struct tsr_load *load, struct tsr_number number)
{
    if (is_float(number))
        tsr_load_expected(load, "an integer constant");
}

static struct tsr_number parse_parenthesis(struct tsr_load *load, unsigned nesting)
{
    if (tsr_parse_take(load, '.')) { /* cast */
        struct tsr_word type = tsr_text_word(&load->text);
        bool is_signed = tsr_word_is(type, "s64");
        if (!is_signed && !tsr_word_is(type, "u64"))
            tsr_load_expected(load, ".s64 or .u64");
        tsr_parse_require(load, ')');
        struct tsr_number value = parse_binary(load, 11, nesting);
        require_integer(load, value);
        return integer((int64_t)value.bits, !is_signed);
    }
    struct tsr_number value = parse_binary(load, 0, nesting);
    tsr_parse_require(load, ')');
    return value;
}

static struct tsr_number parse_unary(struct tsr_load *load, unsigned nesting)
{
    if (nesting > NESTING_MAX)
        tsr_load_expected(load, "an expression of at most 64 levels");
    char c = tsr_parse_peek(load);
    if (c == '(') {
        load->text.at++;
        return parse_parenthesis(load, nesting + 1);
    }
    if (c == '-' || c == '+' || c == '!' || c == '~') {
        load->text.at++;
        struct tsr_number value = parse_unary(load, nesting + 1);
        if (c == '-' && is_float(value)) {
            value.bits ^= value.kind == TSR_NUMBER_F32 ? 1ull << 31 : 1ull << 63;
            return value;
        }
        if (c == '+')
            return value;
        require_integer(load, value);
        if (c == '!')
            return integer(!value.bits, false);
        return integer((int64_t)(c == '-' ? 0 - value.bits : ~value.bits),
                       c == '-' ? false : value.kind == TSR_NUMBER_UNSIGNED);
    }
    struct tsr_number number = tsr_text_number(&load->text);
    if (number.kind == TSR_NUMBER_NONE) {
        struct tsr_ptx_text before = load->text;
        if (tsr_word_is(tsr_text_word(&load->text), "WARP_SZ"))
            return integer(32, false);
        load->text = before;
        tsr_load_expected(load, "a number of at most 64 bits");
    }
    return number;
}

static struct tsr_number apply(struct tsr_load *load, const char *op, struct tsr_number left, struct tsr_number right)
{
    require_integer(load, left);
    require_integer(load, right);
    bool is_unsigned = left.kind == TSR_NUMBER_UNSIGNED || right.kind == TSR_NUMBER_UNSIGNED;
    uint64_t a = left.bits, b = right.bits;
    int64_t sa = (int64_t)a, sb = (int64_t)b;
    if ((*op == '/' || *op == '%') && b == 0)
        tsr_load_expected(load, "a divisor that is not zero");
    bool overflow = sa == INT64_MIN && sb == -1;
    switch (op[0] | (op[1] && op[1] != ' ' ? op[1] << 8 : 0)) {
    case '|' | '|' << 8:
        return integer(a || b, false);
    case '&' | '&' << 8:
        return integer(a && b, false);
    case '=' | '=' << 8:
        return integer(a == b, false);
    case '!' | '=' << 8:
        return integer(a != b, false);
    case '<' | '=' << 8:
        return integer(is_unsigned ? a <= b : sa <= sb, false);
    case '>' | '=' << 8:
        return integer(is_unsigned ? a >= b : sa >= sb, false);
    case '<' | '<' << 8:
        return integer(b > 63 ? 0 : (int64_t)(a << b), left.kind == TSR_NUMBER_UNSIGNED);
    case '>' | '>' << 8:
        if (left.kind == TSR_NUMBER_UNSIGNED)
            return integer(b > 63 ? 0 : (int64_t)(a >> b), true);
        return integer(sa >> (b > 63 ? 63 : b), false);
    case '|':
        return integer((int64_t)(a | b), is_unsigned);
    case '^':
        return integer((int64_t)(a ^ b), is_unsigned);
    case '&':
        return integer((int64_t)(a & b), is_unsigned);
    case '<':
        return integer(is_unsigned ? a < b : sa < sb, false);
    case '>':
        return integer(is_unsigned ? a > b : sa > sb, false);
    case '+':
        return integer((int64_t)(a + b), is_unsigned);
    case '-':
        return integer((int64_t)(a - b), is_unsigned);
    case '*':
        return integer((int64_t)(a * b), is_unsigned);
    case '/':
        return integer(is_unsigned ? (int64_t)(a / b) : overflow ? INT64_MIN : sa / sb, is_unsigned);
    default:
        return integer(is_unsigned ? (int64_t)(a % b) : overflow ? 0 : sa % sb, is_unsigned);
    }
}

static const struct operator *find_operator(struct tsr_load *load)
{
    tsr_text_skip(&load->text);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (memcmp(load->text.at, operators[i].text, operators[i].length) == 0)
            return &operators[i];
    return NULL;
}

static struct tsr_number parse_binary(struct tsr_load *load, unsigned precedence, unsigned nesting)
{
    struct tsr_number left = parse_unary(load, nesting + 1);
    const struct operator *op;
    while ((op = find_operator(load)) && op->precedence > precedence) {
        load->text.at += op->length;
        left = apply(load, op->text, left, parse_binary(load, op->precedence, nesting + 1));
    }
    if (precedence == 0 && tsr_parse_take(load, '?')) {
        require_integer(load, left);
        struct tsr_number yes = parse_binary(load, 0, nesting + 1);
        tsr_parse_require(load, ':');
        struct tsr_number no = parse_binary(load, 0, nesting + 1);
        return left.bits ? yes : no;
    }
    return left;
}

struct tsr_number tsr_parse_expression(struct tsr_load *load)
{
    struct tsr_ptx_text before = load->text; /* nearly always one literal */
    bool negative = *load->text.at == '-';
    load->text.at += negative;
    struct tsr_number number = tsr_text_number(&load->text);
    if (number.kind != TSR_NUMBER_NONE &&
        (*load->text.at == ',' || *load->text.at == ';' || *load->text.at == ']' || *load->text.at == '}')) {
        if (negative && is_float(number))
            number.bits ^= number.kind == TSR_NUMBER_F32 ? 1ull << 31 : 1ull << 63;
        else if (negative)
            number = integer((int64_t)(0 - number.bits), false);
        return number;
    }
    load->text = before;
    return parse_binary(load, 0, 0);
}

uint64_t tsr_parse_integer(struct tsr_load *load, const char *what)
{
    tsr_text_skip(&load->text);
    struct tsr_number number = tsr_parse_expression(load);
    if (is_float(number) || (number.kind == TSR_NUMBER_SIGNED && number.bits >> 63))
        tsr_load_expected(load, what);
    return number.bits;
}
