/*
 * Calls. Arguments and results are .param variables of the caller's frame; registers and numbers, which PTX also allows, are stored to a
 * fresh area first and loaded from it afterwards.
 */
#include <string.h>

#include "base/format.h"
#include "decode.h"

/* Functions that the interpreter itself provides, with the sizes that it relies on. */
struct system_function {
    const char *name, *key;
    uint32_t param_count, params[5], result; /* bytes; result 0: none */
};
static const struct system_function system_functions[] = {
    {"vprintf", "sys.vprintf", 2, {8, 8}, 4},
    {"__assertfail", "sys.assertfail", 5, {8, 8, 4, 8, 8}, 0},
    {"malloc", "sys.malloc", 1, {8}, 8},
    {"free", "sys.free", 1, {8}, 0},
};

static const char *system_key(struct tsr_load *load, const struct tsr_function_load *function)
{
    const struct tsr_signature *signature = &function->signature;
    const struct system_function *found = NULL;
    if (!function->defined && !function->alias)
        for (size_t i = 0; i < sizeof system_functions / sizeof *system_functions; i++)
            if (strcmp(function->name->text, system_functions[i].name) == 0)
                found = &system_functions[i];
    if (!found)
        return NULL;
    bool same = signature->param_count == found->param_count && signature->result_count <= 1 &&
                (!signature->result_count || signature->results[0].param.bytes == found->result);
    for (uint32_t i = 0; same && i < found->param_count; i++)
        same = signature->params[i].param.bytes == found->params[i];
    if (!same)
        tsr_decode_fail(load, load->draft->statement, NULL, "the system function's own parameters");
    return found->key;
}

static void emit_area(struct tsr_load *load, const struct tsr_formal *formal, uint32_t area, uint32_t reg, bool store)
{
    uint32_t bits = tsr_type_bytes[formal->type] * 8u;
    char key[8];
    const struct tsr_op *op = tsr_op_find(key, tsr_format(key, sizeof key, "%s.b%u", store ? "stp" : "ldp", bits));
    if (!op)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->functions.data[load->function].line, 1,
                      "unsupported type of a register parameter");
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_area(insn, TSR_F_A, load->areas.data[area].offset);
    insn->field[store ? TSR_F_DST2 : TSR_F_B] = TSR_AREA_STRIDE(load->areas.data[area].bytes);
    if (store)
        tsr_draft_use(insn, TSR_F_B, reg);
    else
        tsr_draft_def(insn, TSR_F_DST, reg);
}

/* The area that holds the argument. */
static uint32_t argument_area(struct tsr_load *load, const struct tsr_operand *operand, const struct tsr_formal *formal)
{
    if (operand->kind == TSR_OPERAND_SYMBOL && operand->symbol->kind == TSR_SYMBOL_AREA && !operand->displacement)
        return operand->symbol->id;
    if (formal->type == TSR_T_PRED || formal->param.bytes != tsr_type_bytes[formal->type])
        tsr_decode_fail(load, load->draft->statement, operand, "a .param variable as argument");
    uint32_t area = tsr_area_new(load, formal->param.bytes);
    emit_area(load, formal, area, tsr_decode_source(load, operand, formal->type), true);
    return area;
}

static struct tsr_call_arg *make_args(struct tsr_load *load, const struct tsr_operand *list, const struct tsr_formal *formals,
                                      uint32_t count, bool results, struct tsr_target *targets, uint32_t *areas)
{
    struct tsr_call_arg *args = tsr_load_new(load, load->keep, struct tsr_call_arg, count);
    uint32_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct tsr_operand *operand = &list->elements[i];
        targets[i].reg = TSR_NO_REG;
        if (results && operand->kind != TSR_OPERAND_SYMBOL) {
            targets[i] = tsr_decode_target_or_none(load, operand, formals[i].type);
            areas[i] = tsr_area_new(load, formals[i].param.bytes);
        } else {
            areas[i] = argument_area(load, operand, &formals[i]);
        }
        args[i].caller_offset = load->areas.data[areas[i]].offset;
        args[i].bytes = formals[i].param.bytes;
        args[i].callee_offset = offset;
        offset += 32 * TSR_AREA_STRIDE(formals[i].param.bytes);
        uint32_t bytes = load->areas.data[areas[i]].bytes;
        if (bytes < args[i].bytes || TSR_AREA_STRIDE(bytes) != TSR_AREA_STRIDE(args[i].bytes))
            tsr_decode_fail(load, load->draft->statement, operand, "a .param variable of the size of the function's parameter");
    }
    return args;
}

struct call_operands {
    const struct tsr_operand *results, *callee, *params, *prototype;
};

static struct call_operands split_operands(struct tsr_load *load, const struct tsr_statement *statement)
{
    struct call_operands out = {0};
    const struct tsr_operand *at = statement->operands, *end = at + statement->operand_count;
    if (at < end && at->kind == TSR_OPERAND_LIST)
        out.results = at++;
    if (at < end)
        out.callee = at++;
    if (at < end && at->kind == TSR_OPERAND_LIST)
        out.params = at++;
    if (at < end)
        out.prototype = at++;
    if (!out.callee || at < end)
        tsr_decode_fail(load, statement, NULL, "(results), function, (arguments), prototype");
    return out;
}

static const struct tsr_signature *signature_of(struct tsr_load *load, const struct tsr_statement *statement,
                                                const struct call_operands *operands)
{
    if (operands->callee->kind == TSR_OPERAND_SYMBOL && operands->callee->symbol->kind == TSR_SYMBOL_FUNCTION)
        return &load->functions.data[operands->callee->symbol->id].signature;
    const struct tsr_operand *prototype = operands->prototype;
    if (operands->callee->kind != TSR_OPERAND_REGISTER)
        tsr_decode_fail(load, statement, operands->callee, "a declared function or a register");
    if (!prototype || prototype->kind != TSR_OPERAND_SYMBOL)
        tsr_decode_fail(load, statement, prototype, "a prototype for the indirect call");
    if (prototype->symbol->kind == TSR_SYMBOL_PROTOTYPE)
        return prototype->symbol->signature;
    if (prototype->symbol->kind != TSR_SYMBOL_TARGETS)
        tsr_decode_fail(load, statement, prototype, "a prototype for the indirect call");
    const struct tsr_ptx_symbol *function =
        prototype->symbol->targets[0]->symbol; /* .calltargets: all have the same signature */
    if (!function || function->kind != TSR_SYMBOL_FUNCTION)
        tsr_decode_fail(load, statement, prototype, "call targets that are functions");
    return &load->functions.data[function->id].signature;
}

static void require_counts(struct tsr_load *load, const struct tsr_statement *statement, const struct call_operands *operands,
                           const struct tsr_signature *signature)
{
    if ((operands->params ? operands->params->count : 0) != signature->param_count)
        tsr_decode_fail(load, statement, operands->params, "as many arguments as the function has parameters");
    if ((operands->results ? operands->results->count : 0) != signature->result_count)
        tsr_decode_fail(load, statement, operands->results, "as many results as the function has");
}

void tsr_decode_call(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    (void)opcode;
    struct call_operands operands = split_operands(load, statement);
    struct tsr_signature signature = *signature_of(load, statement, &operands);
    require_counts(load, statement, &operands, &signature);
    uint32_t params = signature.param_count, results = signature.result_count, most = params > results ? params : results;
    struct tsr_target *targets = tsr_load_new(load, &load->scratch, struct tsr_target, most);
    uint32_t *areas = tsr_load_new(load, &load->scratch, uint32_t, most);
    struct tsr_call *call = tsr_load_new(load, load->keep, struct tsr_call, 1);
    uint32_t area_top = load->scopes[load->depth].area_top;
    call->arg_count = params;
    call->args = make_args(load, operands.params, signature.params, params, false, targets, areas);
    call->result_count = results;
    call->results = make_args(load, operands.results, signature.results, results, true, targets, areas);
    struct tsr_function_load *caller = &load->functions.data[load->function];
    struct tsr_draft_insn *insn;
    if (operands.callee->kind == TSR_OPERAND_REGISTER) {
        call->function = TSR_NO_REG;
        uint32_t address = tsr_decode_source(load, operands.callee, TSR_T_B64);
        insn = tsr_draft_add(load, tsr_decode_op(load, statement, "call.indirect"));
        tsr_draft_use(insn, TSR_F_A, address);
        caller->calls_indirect = true;
    } else {
        call->function = operands.callee->symbol->id;
        const char *key = system_key(load, &load->functions.data[call->function]);
        insn = tsr_draft_add(load, tsr_decode_op(load, statement, "%s", key ? key : "call"));
        if (!key) {
            tsr_load_push(load, &caller->callees, call->function);
            tsr_load_push(load, &load->call_lines, (struct tsr_call_line){call, statement->line, statement->column});
        }
    }
    insn->aux = call;
    insn->is_call = true;
    for (uint32_t i = 0; i < results; i++)
        if (targets[i].reg != TSR_NO_REG) {
            emit_area(load, &signature.results[i], areas[i], targets[i].reg, false);
            tsr_decode_finish(load, &targets[i]);
        }
    load->scopes[load->depth].area_top = area_top;
}

/* Formals are declared in order, and an area belongs to each: parameters first. */
static void move_formals(struct tsr_load *load, const struct tsr_formal *formals, uint32_t count, uint32_t first_area,
                         bool store)
{
    for (uint32_t i = 0; i < count; i++)
        if (formals[i].is_register)
            emit_area(load, &formals[i], first_area + i, formals[i].reg, store);
}

void tsr_decode_register_params(struct tsr_load *load)
{
    const struct tsr_function_load *function = &load->functions.data[load->function];
    if (!function->entry)
        move_formals(load, function->signature.params, function->signature.param_count, 0, false);
}

void tsr_decode_register_results(struct tsr_load *load)
{
    const struct tsr_signature *signature = &load->functions.data[load->function].signature;
    move_formals(load, signature->results, signature->result_count, signature->param_count, true);
}
