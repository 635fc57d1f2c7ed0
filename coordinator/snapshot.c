/* snapshot.c - reference-counted views behind one lock each. */
#include "coordinator/snapshot.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#include "common/banned.h"

struct snapshots {
    pthread_mutex_t lock; /* held only to swap or take a pointer */
    struct identity_view *identity;
    struct catalogue_view *catalogue;
    struct fleet_view *fleet;
};

static void
identity_unref(struct identity_view *view)
{
    if (atomic_fetch_sub(&view->references, 1) != 1)
        return;
    free(view->accounts);
    free(view->keys);
    free(view);
}

static void
catalogue_unref(struct catalogue_view *view)
{
    if (atomic_fetch_sub(&view->references, 1) != 1)
        return;
    for (size_t i = 0; i < view->model_count; i++)
        model_drop(view->models[i]);
    free(view->models);
    free(view);
}

static void
fleet_unref(struct fleet_view *view)
{
    if (atomic_fetch_sub(&view->references, 1) != 1)
        return;
    for (size_t i = 0; i < view->node_count; i++) {
        free(view->nodes[i].models);
        free(view->nodes[i].serves);
        free(view->nodes[i].residencies);
    }
    free(view->nodes);
    free(view);
}

struct snapshots *
snapshots_new(void)
{
    struct snapshots *all = mem_alloc(sizeof(*all));

    pthread_mutex_init(&all->lock, NULL);
    all->identity = mem_alloc(sizeof(*all->identity));
    all->catalogue = mem_alloc(sizeof(*all->catalogue));
    all->fleet = mem_alloc(sizeof(*all->fleet));
    atomic_init(&all->identity->references, 1);
    atomic_init(&all->catalogue->references, 1);
    atomic_init(&all->fleet->references, 1);
    return all;
}

void
snapshots_free(struct snapshots *all)
{
    if (all == NULL)
        return;
    identity_unref(all->identity);
    catalogue_unref(all->catalogue);
    fleet_unref(all->fleet);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static int
key_order(const void *a, const void *b)
{
    const struct key_view *left = a, *right = b;

    return memcmp(left->digest, right->digest, SHA256_BYTES);
}

static int
account_order(const void *a, const void *b)
{
    const struct account_view *left = a, *right = b;

    return (left->id > right->id) - (left->id < right->id);
}

void
snapshots_set_identity(struct snapshots *all, struct identity_view *view)
{
    struct identity_view *old;

    atomic_init(&view->references, 1);
    if (view->key_count > 0)
        qsort(view->keys, view->key_count, sizeof(*view->keys), key_order);
    if (view->account_count > 0)
        qsort(view->accounts, view->account_count, sizeof(*view->accounts),
              account_order);
    pthread_mutex_lock(&all->lock);
    old = all->identity;
    all->identity = view;
    pthread_mutex_unlock(&all->lock);
    identity_unref(old);
}

static int
model_order(const void *a, const void *b)
{
    const struct model *const *left = a, *const *right = b;

    return strcmp((*left)->entry.id, (*right)->entry.id);
}

void
snapshots_set_catalogue(struct snapshots *all, struct catalogue_view *view)
{
    struct catalogue_view *old;

    atomic_init(&view->references, 1);
    if (view->model_count > 0)
        qsort(view->models, view->model_count, sizeof(struct model *),
              model_order);
    pthread_mutex_lock(&all->lock);
    old = all->catalogue;
    all->catalogue = view;
    pthread_mutex_unlock(&all->lock);
    catalogue_unref(old);
}

void
snapshots_set_fleet(struct snapshots *all, struct fleet_view *view)
{
    struct fleet_view *old;

    atomic_init(&view->references, 1);
    pthread_mutex_lock(&all->lock);
    old = all->fleet;
    all->fleet = view;
    pthread_mutex_unlock(&all->lock);
    fleet_unref(old);
}

const struct identity_view *
identity_take(struct snapshots *all)
{
    struct identity_view *view;

    pthread_mutex_lock(&all->lock);
    view = all->identity;
    atomic_fetch_add(&view->references, 1);
    pthread_mutex_unlock(&all->lock);
    return view;
}

const struct catalogue_view *
catalogue_take(struct snapshots *all)
{
    struct catalogue_view *view;

    pthread_mutex_lock(&all->lock);
    view = all->catalogue;
    atomic_fetch_add(&view->references, 1);
    pthread_mutex_unlock(&all->lock);
    return view;
}

const struct fleet_view *
fleet_take(struct snapshots *all)
{
    struct fleet_view *view;

    pthread_mutex_lock(&all->lock);
    view = all->fleet;
    atomic_fetch_add(&view->references, 1);
    pthread_mutex_unlock(&all->lock);
    return view;
}

/* A reader's view is const; dropping it is the one thing that writes. */
static void *
writable(const void *view)
{
    void *plain;

    memcpy(&plain, &view, sizeof(plain));
    return plain;
}

void
identity_drop(const struct identity_view *view)
{
    identity_unref(writable(view));
}

void
catalogue_drop(const struct catalogue_view *view)
{
    catalogue_unref(writable(view));
}

void
fleet_drop(const struct fleet_view *view)
{
    fleet_unref(writable(view));
}

struct model *
model_keep(struct model *model)
{
    atomic_fetch_add(&model->references, 1);
    return model;
}

void
model_drop(struct model *model)
{
    if (model == NULL || atomic_fetch_sub(&model->references, 1) != 1)
        return;
    tokenizer_free(model->tokenizer);
    template_free(model->template);
    free(model);
}

const struct account_view *
identity_account(const struct identity_view *view, int64_t id)
{
    for (size_t i = 0; i < view->account_count; i++)
        if (view->accounts[i].id == id)
            return &view->accounts[i];
    return NULL;
}

const struct account_view *
identity_account_named(const struct identity_view *view, const char *name)
{
    for (size_t i = 0; i < view->account_count; i++)
        if (strcmp(view->accounts[i].name, name) == 0)
            return &view->accounts[i];
    return NULL;
}

const struct key_view *
identity_key(const struct identity_view *view,
             const uint8_t digest[SHA256_BYTES])
{
    size_t low = 0, high = view->key_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = memcmp(digest, view->keys[middle].digest, SHA256_BYTES);

        if (order == 0)
            return &view->keys[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct key_view *
identity_key_by_id(const struct identity_view *view, const char *id)
{
    for (size_t i = 0; i < view->key_count; i++)
        if (strcmp(view->keys[i].id, id) == 0)
            return &view->keys[i];
    return NULL;
}

struct model *
catalogue_model(const struct catalogue_view *view, const char *id)
{
    for (size_t i = 0; i < view->model_count; i++)
        if (strcmp(view->models[i]->entry.id, id) == 0)
            return view->models[i];
    return NULL;
}

const struct node_view *
fleet_node(const struct fleet_view *view, const char *id)
{
    for (size_t i = 0; i < view->node_count; i++)
        if (strcmp(view->nodes[i].id, id) == 0)
            return &view->nodes[i];
    return NULL;
}

size_t
fleet_serving(const struct fleet_view *view, const char *model)
{
    size_t serving = 0;

    for (size_t i = 0; i < view->node_count; i++) {
        const struct node_view *node = &view->nodes[i];

        if (strcmp(node->state, "lending") != 0 &&
            strcmp(node->state, "busy") != 0)
            continue;
        for (size_t j = 0; j < node->model_count; j++)
            if (node->serves[j] && strcmp(node->models[j], model) == 0)
                serving++;
    }
    return serving;
}
