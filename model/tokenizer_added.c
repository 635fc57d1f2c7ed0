/* tokenizer_added.c - added tokens, found by a trie over their bytes. */
#include "model/tokenizer_added.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "common/mem.h"
#include "model/tokenizer_bpe.h"

#include "common/banned.h"

enum {
    ADDED_MAX = 1 << 17,
    ADDED_TEXT_MAX_BYTES = 256, /* also what one look at a place may cost */
    ROOT = 0,
};

#define NO_NODE UINT32_MAX
#define NO_TOKEN UINT32_MAX

struct trie_node {
    uint32_t first; /* child */
    uint32_t next;  /* sibling */
    uint32_t token; /* that ends here */
    uint8_t byte;
};

static uint32_t
trie_add_node(struct trie *trie, uint8_t byte)
{
    if (trie->node_count == trie->node_capacity) {
        trie->node_capacity = trie->node_capacity * 2 + 64;
        trie->nodes =
            mem_grow(trie->nodes, trie->node_capacity, sizeof(trie->nodes[0]));
    }
    trie->nodes[trie->node_count] = (struct trie_node){
        .first = NO_NODE, .next = NO_NODE, .token = NO_TOKEN, .byte = byte};
    return (uint32_t)trie->node_count++;
}

static uint32_t
trie_child(const struct trie *trie, uint32_t node, uint8_t byte)
{
    uint32_t child = trie->nodes[node].first;

    while (child != NO_NODE && trie->nodes[child].byte != byte)
        child = trie->nodes[child].next;
    return child;
}

static void
trie_add(struct trie *trie, const char *text, size_t size, uint32_t token)
{
    uint32_t node = ROOT;

    if (trie->node_count == 0)
        trie_add_node(trie, 0);
    for (size_t i = 0; i < size; i++) {
        uint32_t child = trie_child(trie, node, (uint8_t)text[i]);

        if (child == NO_NODE) {
            child = trie_add_node(trie, (uint8_t)text[i]);
            trie->nodes[child].next = trie->nodes[node].first;
            trie->nodes[node].first = child;
        }
        node = child;
    }
    trie->nodes[node].token = token;
}

/* The longest token that begins at @text; NO_TOKEN when none does. */
static uint32_t
trie_longest(const struct trie *trie, const char *text, size_t size,
             size_t *match_size)
{
    uint32_t found = NO_TOKEN;
    uint32_t node = ROOT;

    for (size_t i = 0; i < size; i++) {
        node = trie_child(trie, node, (uint8_t)text[i]);
        if (node == NO_NODE)
            break;
        if (trie->nodes[node].token != NO_TOKEN) {
            found = trie->nodes[node].token;
            *match_size = i + 1;
        }
    }
    return found;
}

/* --- reading --------------------------------------------------------------*/

static enum status
read_token(const struct json *value, struct added_token *token,
           struct error *err)
{
    int64_t id = -1;
    size_t size = 0;
    const char *text = json_as_text(json_get(value, "content"), &size);
    const struct json *normalised = json_get(value, "normalized");

    if (json_as_i64(json_get(value, "id"), &id) != STATUS_OK || id < 0 ||
        id >= TOKENIZER_VOCABULARY_MAX)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: added_tokens: id is not below %d",
                         TOKENIZER_VOCABULARY_MAX);
    if (text == NULL || size == 0 || size > ADDED_TEXT_MAX_BYTES)
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: added_tokens: content of id %d is "
                         "not 1 to %d bytes",
                         (int)id, ADDED_TEXT_MAX_BYTES);
    token->id = (uint32_t)id;
    token->text = mem_text_sized(text, size);
    token->size = size;
    token->special = json_as_bool(json_get(value, "special"));
    token->strips_left = json_as_bool(json_get(value, "lstrip"));
    token->strips_right = json_as_bool(json_get(value, "rstrip"));
    token->single_word = json_as_bool(json_get(value, "single_word"));
    token->normalised =
        normalised == NULL ? !token->special : json_as_bool(normalised);
    return STATUS_OK;
}

static void
index_token(struct added_tokens *added, const struct normaliser *normaliser,
            uint32_t index)
{
    const struct added_token *token = &added->tokens[index];
    struct buf text;

    if (!token->normalised) {
        trie_add(&added->raw, token->text, token->size, index);
        return;
    }
    buf_init(&text, (size_t)ADDED_TEXT_MAX_BYTES * 32);
    normaliser_apply(normaliser, token->text, token->size, &text);
    trie_add(&added->normalised, text.data, text.size, index);
    buf_clear(&text);
}

enum status
added_tokens_read(const struct json *list, const struct normaliser *normaliser,
                  struct added_tokens *added, struct error *err)
{
    size_t count = json_count(list);
    enum status status = STATUS_OK;

    *added = (struct added_tokens){.count = 0};
    if (count > ADDED_MAX ||
        (!json_is_null(list) && json_kind(list) != JSON_KIND_LIST))
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: added_tokens is no list of at most "
                         "%d",
                         ADDED_MAX);
    added->tokens = mem_array(count, sizeof(added->tokens[0]));
    for (size_t i = 0; i < count; i++) {
        status = read_token(json_at(list, i), &added->tokens[i], err);
        if (status != STATUS_OK)
            break;
        added->count++;
        index_token(added, normaliser, (uint32_t)i);
    }
    if (status != STATUS_OK)
        added_tokens_clear(added);
    return status;
}

void
added_tokens_clear(struct added_tokens *added)
{
    for (size_t i = 0; i < added->count; i++)
        free(added->tokens[i].text);
    free(added->tokens);
    free(added->raw.nodes);
    free(added->normalised.nodes);
    *added = (struct added_tokens){.count = 0};
}

/* --- matching -------------------------------------------------------------*/

/* The character that ends at @at and its size in bytes. */
static utf8proc_int32_t
point_before(const char *text, size_t at, size_t *size)
{
    size_t begin = at - 1;
    utf8proc_int32_t point = -1;

    while (begin > 0 && at - begin < 4 && ((uint8_t)text[begin] & 0xc0) == 0x80)
        begin--;
    utf8proc_iterate((const utf8proc_uint8_t *)text + begin,
                     (utf8proc_ssize_t)(at - begin), &point);
    *size = at - begin;
    return point;
}

static utf8proc_int32_t
point_after(const char *text, size_t size, size_t at, size_t *point_size)
{
    utf8proc_int32_t point = -1;
    utf8proc_ssize_t step =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                         (utf8proc_ssize_t)(size - at), &point);

    *point_size = step > 0 ? (size_t)step : 1;
    return point;
}

/* Unicode's White_Space. */
static bool
is_blank(utf8proc_int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);

    return (point >= 0x09 && point <= 0x0d) || point == 0x85 ||
           category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

static bool
is_word(utf8proc_int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);

    return (category >= UTF8PROC_CATEGORY_LU &&
            category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC;
}

static bool
is_in_a_word(const char *text, size_t size, const struct added_match *match)
{
    size_t point_size = 0;

    return (match->begin > 0 &&
            is_word(point_before(text, match->begin, &point_size))) ||
           (match->end < size &&
            is_word(point_after(text, size, match->end, &point_size)));
}

/* Take the blanks around the match that its token strips; those before @from
 * belong to the match before. */
static void
widen(const char *text, size_t size, size_t from, struct added_match *match)
{
    size_t point_size = 0;

    while (match->token->strips_left && match->begin > from &&
           is_blank(point_before(text, match->begin, &point_size)))
        match->begin -= point_size;
    while (match->token->strips_right && match->end < size &&
           is_blank(point_after(text, size, match->end, &point_size)))
        match->end += point_size;
}

bool
added_tokens_next(const struct added_tokens *added, const struct trie *trie,
                  const char *text, size_t size, size_t from, bool specials,
                  struct added_match *match)
{
    size_t at = from;

    if (trie->node_count == 0)
        return false;
    while (at < size) {
        size_t found_size = 0;
        uint32_t found = trie_longest(trie, text + at, size - at, &found_size);

        if (found == NO_TOKEN) {
            at++;
            continue;
        }
        *match = (struct added_match){.token = &added->tokens[found],
                                      .begin = at,
                                      .end = at + found_size};
        at += found_size;
        if (match->token->special && !specials)
            continue;
        if (match->token->single_word && is_in_a_word(text, size, match))
            continue;
        widen(text, size, from, match);
        return true;
    }
    return false;
}
