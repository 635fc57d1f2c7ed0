/* coordinator_app.h - an app whose catalogue holds tiny-chat alone. */
#ifndef BERTH_TESTS_UNIT_COORDINATOR_APP_H
#define BERTH_TESTS_UNIT_COORDINATOR_APP_H

#include "common/mem.h"
#include "coordinator/app.h"
#include "tests/unit/coordinator_model.h"

/* The model, borrowed from the catalogue; NULL when its files cannot be read.
 * snapshots_free(app->snapshots) frees all. */
static struct model *
tiny_app_init(struct app *app)
{
    struct catalogue_view *view = mem_alloc(sizeof(*view));

    atomic_init(&view->references, 1);
    view->models = mem_array(1, sizeof(struct model *));
    view->models[0] = tiny_chat_new();
    view->model_count = 1;
    if (view->models[0] == NULL)
        return NULL;
    app->snapshots = snapshots_new();
    snapshots_set_catalogue(app->snapshots, view);
    app->revision = price_revision_1;
    app->config.patience_max_ms = 600000;
    return view->models[0];
}

#endif
