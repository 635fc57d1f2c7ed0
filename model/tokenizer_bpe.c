/* tokenizer_bpe.c - byte-level byte-pair encoding.
 *
 * Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with
 * Subword Units", 2016: of all neighbours the pair with the lowest rank is
 * joined first, the leftmost among equals.  A heap of candidates and a doubly
 * linked list of symbols make it n log n; a candidate whose symbols have
 * changed meanwhile is recognised by its rank and dropped. */
#include "model/tokenizer_bpe.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/mem.h"

#include "common/banned.h"

enum {
    BYTE_COUNT = 256,
    ALPHABET_LIMIT = 324, /* one past the last stand-in: 256 + 68 others */
    TOKEN_MAX_BYTES = 4096,
    HEAP_FIRST = 256,
};

#define NO_ID UINT32_MAX
#define NO_INDEX UINT32_MAX

struct bpe_symbol {
    uint32_t id; /* NO_ID once it was joined to its left neighbour */
    uint32_t previous;
    uint32_t next;
};

struct token {
    size_t at; /* in bpe->bytes */
    uint32_t size;
    bool known;   /* the vocabulary has this id */
    bool literal; /* not in the byte alphabet: never made by merges */
};

struct merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank;
    uint32_t id; /* NO_ID: an empty slot */
};

struct bpe {
    char *bytes; /* of all tokens, end to end */
    struct token *tokens;
    size_t id_limit;
    uint32_t *slots; /* bytes to id, open addressing; NO_ID is empty */
    size_t slot_mask;
    struct merge *merges; /* pair to rank, open addressing */
    size_t merge_mask;
    uint32_t byte_ids[BYTE_COUNT];
    bool ignore_merges;
};

void
id_list_add(struct id_list *list, uint32_t id)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        list->ids = mem_grow(list->ids, list->capacity, sizeof(list->ids[0]));
    }
    list->ids[list->count++] = id;
}

void
bpe_scratch_clear(struct bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (struct bpe_scratch){0};
}

/* --- hashing --------------------------------------------------------------*/

static uint64_t
mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static uint64_t
hash_bytes(const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
    return mix(hash);
}

/* A power of two with room for twice @count. */
static size_t
table_size(size_t count)
{
    size_t size = 16;

    while (size < count * 2)
        size *= 2;
    return size;
}

/* The slot of these bytes, or the empty one where they would go. */
static size_t
find_slot(const struct bpe *bpe, const char *bytes, size_t size)
{
    size_t at = (size_t)hash_bytes(bytes, size) & bpe->slot_mask;

    for (; bpe->slots[at] != NO_ID; at = (at + 1) & bpe->slot_mask) {
        const struct token *token = &bpe->tokens[bpe->slots[at]];

        if (token->size == size &&
            memcmp(bpe->bytes + token->at, bytes, size) == 0)
            break;
    }
    return at;
}

static struct merge *
find_merge(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    size_t at = (size_t)mix(pair) & bpe->merge_mask;

    while (bpe->merges[at].id != NO_ID && bpe->merges[at].pair != pair)
        at = (at + 1) & bpe->merge_mask;
    return &bpe->merges[at];
}

/* --- reading --------------------------------------------------------------*/

/* The byte that each stand-in character means, -1 for none.  Printable bytes
 * stand for themselves, the others for 256 and up in their order. */
static void
make_alphabet(int16_t alphabet[static ALPHABET_LIMIT])
{
    int next = BYTE_COUNT;

    for (int i = 0; i < ALPHABET_LIMIT; i++)
        alphabet[i] = -1;
    for (int byte = 0; byte < BYTE_COUNT; byte++) {
        bool printable = (byte >= '!' && byte <= '~') ||
                         (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

        alphabet[printable ? byte : next++] = (int16_t)byte;
    }
    assert(next == ALPHABET_LIMIT);
}

/* Stand-ins to bytes; @out has room for @size.  False when a character is no
 * stand-in. */
static bool
resolve(const int16_t *alphabet, const char *text, size_t size, char *out,
        size_t *out_size)
{
    size_t written = 0;

    for (size_t at = 0; at < size;) {
        utf8proc_int32_t point = 0;
        utf8proc_ssize_t step =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                             (utf8proc_ssize_t)(size - at), &point);

        if (step <= 0 || point >= ALPHABET_LIMIT || alphabet[point] < 0)
            return false;
        out[written++] = (char)alphabet[point];
        at += (size_t)step;
    }
    *out_size = written;
    return true;
}

/* Sizes of everything before anything is stored. */
static enum status
measure_vocabulary(const struct json *vocabulary, size_t *id_limit,
                   size_t *bytes, struct error *err)
{
    const struct json_member *it = json_member_first(vocabulary);

    *id_limit = 0;
    *bytes = 0;
    for (; it != NULL; it = json_member_next(vocabulary, it)) {
        const char *name = json_member_name(it);
        int64_t id = -1;

        if (json_as_i64(json_member_value(it), &id) != STATUS_OK || id < 0 ||
            id >= TOKENIZER_VOCABULARY_MAX)
            return error_set(err, STATUS_INVALID,
                             "tokenizer.json: vocab: id of %.60s is not below "
                             "%d",
                             name, TOKENIZER_VOCABULARY_MAX);
        if (strlen(name) > TOKEN_MAX_BYTES)
            return error_set(err, STATUS_INVALID,
                             "tokenizer.json: vocab: token of id %" PRId64
                             " is longer than %d bytes",
                             id, TOKEN_MAX_BYTES);
        if ((size_t)id >= *id_limit)
            *id_limit = (size_t)id + 1;
        *bytes += strlen(name);
    }
    return STATUS_OK;
}

static enum status
store_token(struct bpe *bpe, const int16_t *alphabet, const char *name,
            uint32_t id, size_t *used, struct error *err)
{
    struct token *token = &bpe->tokens[id];
    size_t size = 0;
    size_t slot = 0;

    if (token->known)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: vocab: id %u is there twice", id);
    token->at = *used;
    token->known = true;
    if (!resolve(alphabet, name, strlen(name), bpe->bytes + *used, &size)) {
        token->literal = true;
        size = strlen(name);
        memcpy(bpe->bytes + *used, name, size);
    }
    token->size = (uint32_t)size;
    *used += size;
    if (token->literal)
        return STATUS_OK;
    slot = find_slot(bpe, bpe->bytes + token->at, size);
    bpe->slots[slot] = id; /* stand-ins are one to one: never taken before */
    if (size == 1)
        bpe->byte_ids[(uint8_t)bpe->bytes[token->at]] = id;
    return STATUS_OK;
}

/* A byte that UTF-8 text can hold but the vocabulary cannot write would be
 * lost from prompts without a word. */
static enum status
check_bytes(const struct bpe *bpe, struct error *err)
{
    for (unsigned byte = 0; byte < 0xf5; byte++) {
        if (byte != 0xc0 && byte != 0xc1 && bpe->byte_ids[byte] == NO_ID)
            return error_set(err, STATUS_INVALID,
                             "tokenizer.json: vocab: no token for byte 0x%02x; "
                             "only byte-level BPE is supported",
                             byte);
    }
    return STATUS_OK;
}

static enum status
read_vocabulary(struct bpe *bpe, const struct json *vocabulary,
                const int16_t *alphabet, struct error *err)
{
    const struct json_member *it = NULL;
    size_t bytes = 0;
    size_t used = 0;
    size_t slots = table_size(json_count(vocabulary));
    enum status status =
        measure_vocabulary(vocabulary, &bpe->id_limit, &bytes, err);

    if (status != STATUS_OK)
        return status;
    bpe->bytes = mem_alloc(bytes);
    bpe->tokens = mem_array(bpe->id_limit, sizeof(bpe->tokens[0]));
    bpe->slots = mem_array(slots, sizeof(bpe->slots[0]));
    bpe->slot_mask = slots - 1;
    memset(bpe->slots, 0xff, slots * sizeof(bpe->slots[0]));
    memset(bpe->byte_ids, 0xff, sizeof(bpe->byte_ids));
    for (it = json_member_first(vocabulary); it != NULL;
         it = json_member_next(vocabulary, it)) {
        int64_t id = 0;

        status = json_as_i64(json_member_value(it), &id);
        if (status == STATUS_OK)
            status = store_token(bpe, alphabet, json_member_name(it),
                                 (uint32_t)id, &used, err);
        if (status != STATUS_OK)
            return status;
    }
    return check_bytes(bpe, err);
}

/* The two parts of a merge, as stand-ins: "a b" or ["a", "b"]. */
static bool
split_merge(const struct json *value, const char *parts[2], size_t sizes[2])
{
    size_t size = 0;
    const char *text = json_as_text(value, &size);
    const char *space = NULL;

    if (text == NULL) {
        parts[0] = json_as_text(json_at(value, 0), &sizes[0]);
        parts[1] = json_as_text(json_at(value, 1), &sizes[1]);
        return json_count(value) == 2 && parts[0] != NULL && parts[1] != NULL;
    }
    space = memchr(text, ' ', size);
    if (space == NULL)
        return false;
    parts[0] = text;
    sizes[0] = (size_t)(space - text);
    parts[1] = space + 1;
    sizes[1] = size - sizes[0] - 1;
    return true;
}

static enum status
read_merge(struct bpe *bpe, const int16_t *alphabet, const struct json *value,
           uint32_t rank, struct error *err)
{
    char joined[2 * TOKEN_MAX_BYTES];
    const char *parts[2] = {NULL, NULL};
    size_t sizes[2] = {0, 0};
    size_t left_size = 0;
    size_t right_size = 0;
    uint32_t left = NO_ID;
    uint32_t right = NO_ID;
    uint32_t whole = NO_ID;

    if (split_merge(value, parts, sizes) && sizes[0] <= TOKEN_MAX_BYTES &&
        sizes[1] <= TOKEN_MAX_BYTES &&
        resolve(alphabet, parts[0], sizes[0], joined, &left_size) &&
        resolve(alphabet, parts[1], sizes[1], joined + left_size,
                &right_size)) {
        left = bpe->slots[find_slot(bpe, joined, left_size)];
        right = bpe->slots[find_slot(bpe, joined + left_size, right_size)];
        whole = bpe->slots[find_slot(bpe, joined, left_size + right_size)];
    }
    if (left == NO_ID || right == NO_ID || whole == NO_ID)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: merge %u is not of known tokens",
                         rank);
    *find_merge(bpe, left, right) = (struct merge){
        .pair = (uint64_t)left << 32 | right, .rank = rank, .id = whole};
    return STATUS_OK;
}

static enum status
read_merges(struct bpe *bpe, const struct json *merges, const int16_t *alphabet,
            struct error *err)
{
    size_t count = json_count(merges);
    size_t slots = table_size(count);

    bpe->merges = mem_array(slots, sizeof(bpe->merges[0]));
    bpe->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        bpe->merges[i].id = NO_ID;
    for (size_t i = 0; i < count; i++) {
        enum status status =
            read_merge(bpe, alphabet, json_at(merges, i), (uint32_t)i, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static bool
is_empty_text(const struct json *value)
{
    size_t size = 0;

    return json_is_null(value) ||
           (json_as_text(value, &size) != NULL && size == 0);
}

static enum status
check_model(const struct json *model, struct error *err)
{
    size_t size = 0;
    const char *type = json_as_text(json_get(model, "type"), &size);
    double dropout = 0;

    if (type == NULL || strcmp(type, "BPE") != 0)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: model type %.32s is not known, only "
                         "BPE",
                         type == NULL ? "(none)" : type);
    if (json_as_bool(json_get(model, "byte_fallback")))
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: byte_fallback is not supported");
    if (json_as_double(json_get(model, "dropout"), &dropout) == STATUS_OK &&
        dropout != 0)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: dropout is not supported");
    if (!is_empty_text(json_get(model, "continuing_subword_prefix")) ||
        !is_empty_text(json_get(model, "end_of_word_suffix")))
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: continuing_subword_prefix and "
                         "end_of_word_suffix are not supported");
    if (json_kind(json_get(model, "vocab")) != JSON_KIND_OBJECT ||
        json_kind(json_get(model, "merges")) != JSON_KIND_LIST)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: model lacks vocab or merges");
    if (json_count(json_get(model, "vocab")) > TOKENIZER_VOCABULARY_MAX ||
        json_count(json_get(model, "merges")) > TOKENIZER_VOCABULARY_MAX)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: more than %d tokens or merges",
                         TOKENIZER_VOCABULARY_MAX);
    return STATUS_OK;
}

enum status
bpe_read(const struct json *model, struct bpe **bpe, struct error *err)
{
    int16_t alphabet[ALPHABET_LIMIT];
    struct bpe *read = NULL;
    enum status status = check_model(model, err);

    if (status != STATUS_OK)
        return status;
    make_alphabet(alphabet);
    read = mem_alloc(sizeof(*read));
    read->ignore_merges = json_as_bool(json_get(model, "ignore_merges"));
    status = read_vocabulary(read, json_get(model, "vocab"), alphabet, err);
    if (status == STATUS_OK)
        status = read_merges(read, json_get(model, "merges"), alphabet, err);
    if (status == STATUS_OK)
        *bpe = read;
    else
        bpe_free(read);
    return status;
}

void
bpe_free(struct bpe *bpe)
{
    if (bpe == NULL)
        return;
    free(bpe->bytes);
    free(bpe->tokens);
    free(bpe->slots);
    free(bpe->merges);
    free(bpe);
}

size_t
bpe_id_limit(const struct bpe *bpe)
{
    return bpe->id_limit;
}

const char *
bpe_bytes(const struct bpe *bpe, uint32_t id, size_t *size)
{
    if (id >= bpe->id_limit || !bpe->tokens[id].known)
        return NULL;
    *size = bpe->tokens[id].size;
    return bpe->bytes + bpe->tokens[id].at;
}

/* --- encoding -------------------------------------------------------------*/

static void
heap_push(struct bpe_scratch *scratch, uint64_t entry)
{
    size_t at = scratch->heap_count++;

    if (at == scratch->heap_capacity) {
        scratch->heap_capacity = at == 0 ? HEAP_FIRST : at * 2;
        scratch->heap = mem_grow(scratch->heap, scratch->heap_capacity,
                                 sizeof(scratch->heap[0]));
    }
    while (at > 0 && scratch->heap[(at - 1) / 2] > entry) {
        scratch->heap[at] = scratch->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    scratch->heap[at] = entry;
}

static uint64_t
heap_pop(struct bpe_scratch *scratch)
{
    uint64_t *heap = scratch->heap;
    uint64_t top = heap[0];
    uint64_t last = heap[--scratch->heap_count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= scratch->heap_count)
            break;
        if (child + 1 < scratch->heap_count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Remember the pair that begins at @left, if there is a merge for it. */
static void
push_pair(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t left)
{
    const struct bpe_symbol *symbol = &scratch->symbols[left];
    const struct merge *merge = NULL;

    if (symbol->next == NO_INDEX)
        return;
    merge = find_merge(bpe, symbol->id, scratch->symbols[symbol->next].id);
    if (merge->id != NO_ID)
        heap_push(scratch, (uint64_t)merge->rank << 32 | left);
}

/* One symbol for each byte. */
static void
fill_symbols(const struct bpe *bpe, struct bpe_scratch *scratch,
             const char *piece, size_t size)
{
    if (size > scratch->symbol_capacity) {
        scratch->symbol_capacity = size + size / 2;
        free(scratch->symbols);
        scratch->symbols =
            mem_array(scratch->symbol_capacity, sizeof(scratch->symbols[0]));
    }
    for (size_t i = 0; i < size; i++) {
        scratch->symbols[i] = (struct bpe_symbol){
            .id = bpe->byte_ids[(uint8_t)piece[i]],
            .previous = i == 0 ? NO_INDEX : (uint32_t)i - 1,
            .next = i + 1 == size ? NO_INDEX : (uint32_t)i + 1,
        };
    }
}

/* Join the symbol at @left with its right neighbour into @id. */
static void
join(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t left,
     uint32_t id)
{
    struct bpe_symbol *symbol = &scratch->symbols[left];
    struct bpe_symbol *gone = &scratch->symbols[symbol->next];

    symbol->id = id;
    symbol->next = gone->next;
    gone->id = NO_ID;
    if (symbol->next != NO_INDEX)
        scratch->symbols[symbol->next].previous = left;
    if (symbol->previous != NO_INDEX)
        push_pair(bpe, scratch, symbol->previous);
    push_pair(bpe, scratch, left);
}

static void
join_all(const struct bpe *bpe, struct bpe_scratch *scratch, size_t size)
{
    scratch->heap_count = 0;
    for (size_t i = 0; i + 1 < size; i++)
        push_pair(bpe, scratch, (uint32_t)i);
    while (scratch->heap_count > 0) {
        uint64_t entry = heap_pop(scratch);
        uint32_t left = (uint32_t)entry;
        const struct bpe_symbol *symbol = &scratch->symbols[left];
        const struct merge *merge = NULL;

        if (symbol->id == NO_ID || symbol->next == NO_INDEX)
            continue;
        merge = find_merge(bpe, symbol->id, scratch->symbols[symbol->next].id);
        if (merge->id != NO_ID && merge->rank == entry >> 32)
            join(bpe, scratch, left, merge->id);
    }
}

void
bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
           const char *piece, size_t size, struct id_list *out)
{
    if (size == 0)
        return;
    assert(size < NO_INDEX);
    if (bpe->ignore_merges) {
        uint32_t id = bpe->slots[find_slot(bpe, piece, size)];

        if (id != NO_ID) {
            id_list_add(out, id);
            return;
        }
    }
    fill_symbols(bpe, scratch, piece, size);
    join_all(bpe, scratch, size);
    for (uint32_t i = 0; i != NO_INDEX; i = scratch->symbols[i].next)
        id_list_add(out, scratch->symbols[i].id);
}
