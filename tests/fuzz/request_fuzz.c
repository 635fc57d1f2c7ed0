/* request_fuzz.c - bodies of OpenAI's completions, the first byte choosing
 * chat or not: what becomes a job keeps every promise of one, and the link can
 * carry it; what does not names the reason. */
#include "coordinator/prepare.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/wire.h"
#include "tests/unit/coordinator_model.h"

#include "common/banned.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct app app;

/* The same model with a chat template that knows tools, as "tools". */
static struct model *
tiny_tools_new(void)
{
    struct model *model = tiny_chat_new();
    const char *source;
    struct buf text;
    size_t size;

    assert(model != NULL);
    snprintf(model->entry.id, sizeof(model->entry.id), "tools");
    template_free(model->template);
    buf_init(&text, TEMPLATE_MAX_BYTES);
    assert(buf_read_file(&text, "tests/golden/template/qwen.jinja", NULL) ==
           STATUS_OK);
    assert(template_parse(text.data, text.size, &model->template, NULL) ==
           STATUS_OK);
    buf_clear(&text);
    source = template_source(model->template, &size);
    model->format = format_find(source, size);
    model->knows_tools = true;
    model->knows_calls = true;
    return model;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct catalogue_view *view = mem_alloc(sizeof(*view));

    (void)argc;
    (void)argv;
    atomic_init(&view->references, 1);
    view->models = mem_array(2, sizeof(struct model *));
    view->models[0] = tiny_chat_new();
    view->models[1] = tiny_tools_new();
    view->model_count = 2;
    assert(view->models[0] != NULL);
    app.snapshots = snapshots_new();
    snapshots_set_catalogue(app.snapshots, view);
    app.revision = price_revision_1;
    app.config.patience_max_ms = 600000;
    return 0;
}

/* As the core makes it. */
static void
check_frame(const struct job *job)
{
    struct wire_job_run *run = mem_alloc(sizeof(*run));
    struct error err = {0};
    struct buf frame;

    memcpy(run->job, job->id, sizeof(run->job));
    run->attempt = 1;
    run->epoch = 1;
    memcpy(run->model, job->model->entry.id, sizeof(run->model));
    memset(run->digest, 'a', sizeof(run->digest) - 1); /* the model has none */
    run->prompt_count = job->prompt_count;
    run->max_tokens = job->rules.max_tokens;
    run->kv_tokens = job->prompt_count + job->rules.max_tokens;
    run->sampling = job->sampling;
    run->stop_count = job->rules.stop_count;
    memcpy(run->stop, job->rules.stop, sizeof(run->stop));
    buf_init(&frame, WIRE_HEAD_BYTES + WIRE_FRAME_MAX_BYTES);
    assert(wire_encode(WIRE_JOB_RUN, run, &frame, &err) == STATUS_OK);
    buf_clear(&frame);
    free(run);
}

static void
check_job(const struct job *job)
{
    uint64_t context = job->model->entry.context;

    assert(job->prompt_count > 0 && job->prompt_count < context);
    assert(job->rules.max_tokens > 0 &&
           job->rules.max_tokens <= context - job->prompt_count);
    for (size_t i = 0; i < job->prompt_count; i++)
        assert(job->prompt[i] < job->model->entry.vocab);
    assert(job->sampling.temperature >= 0 && job->sampling.temperature <= 2);
    assert(job->sampling.top_p > 0 && job->sampling.top_p <= 1);
    assert(job->hold.micro > 0 && job->sampling.seed <= INT64_MAX);
    assert(job->patience.ns >= 0 && span_as_ms(job->patience) <= 600000);
    assert(memchr(job->pool, '\0', sizeof(job->pool)) != NULL);
    assert(job->rules.stop_count <= OUTPUT_STOPS_MAX);
    assert(job->record != NULL);
    assert(!job->rules.calls ||
           job->rules.tools[job->rules.tools_size - 1] == '\0');
    assert(job->rules.prefix == NULL || job->rules.calls);
    check_frame(job);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc doc = {0};
    struct prepared prepared = {0};
    struct error err = {0};
    struct prepare from = {
        .app = &app,
        .account = 1,
        .wallet = 2,
        .key = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        .chat = size > 0 && data[0] % 2 == 0,
    };

    if (size == 0 || json_doc_parse((const char *)data + 1, size - 1, &doc,
                                    &err) != STATUS_OK)
        return 0;
    from.body = doc.root;
    from.berth = json_get(doc.root, "berth");
    if (prepare_job(&from, &prepared, &err) == STATUS_OK) {
        check_job(prepared.job);
        job_free(prepared.job);
    } else {
        assert(err.text[0] != '\0');
        assert(err.status == STATUS_INVALID || err.status == STATUS_NOT_FOUND);
    }
    json_doc_clear(&doc);
    return 0;
}
