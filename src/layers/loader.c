/* SPDX-License-Identifier: Apache-2.0 */
/* Loading layers from a checkpoint. All is checked before anything is loaded. Not collective:
   each rank runs its own loader, and reads the bytes of its own slices alone.

   Memory: a touched page of the map stays in the process until it is given back, and brings its
   cached neighbours along. A row layer's slice of one quarter touches every page of the file, so
   pages go back after every few MiB, not at the end. Read-ahead is off during a run; each block is
   asked for just before it is read. */
#include "layers/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"

/* Pages of the map that a block may hold; what a run holds at a time is twice this at most. */
enum { MOST_MAPPED = 8 << 20 };

/* Names in one sentence. */
enum { MOST_NAMES = 16 };

typedef struct feed {
    parlin_layer *layer;
    parlin_param param;
    size_t first; /* parts [first, first + count) */
    size_t count;
    parlin_shard shard;
    parlin_layout layout;
    char *name;
    size_t index;   /* in the checkpoint; SIZE_MAX: not there */
    bool forbidden; /* must not be there: the layer has no such parameter */
} feed;

struct parlin_loader {
    parlin_checkpoint *checkpoint;
    feed *feeds;
    size_t count;
    size_t room;
    char **ignored; /* prefixes */
    size_t ignored_count;
    size_t *left_over; /* [of the checkpoint]: indexes, as found by the last look */
    bool *named;       /* [of the checkpoint] */
    size_t left_over_count;
    bool looked;
};

parlin_status parlin_loader_create(parlin_checkpoint *checkpoint, parlin_loader **loader)
{
    if (checkpoint == NULL || loader == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_loader_create: %s is NULL",
                        checkpoint == NULL ? "checkpoint" : "loader");
    parlin_loader *made = calloc(1, sizeof *made);
    if (made != NULL) {
        size_t count = parlin_checkpoint_count(checkpoint);
        made->left_over = calloc(count + 1, sizeof *made->left_over);
        made->named = calloc(count + 1, sizeof *made->named);
    }
    if (made == NULL || made->left_over == NULL || made->named == NULL) {
        parlin_loader_destroy(made);
        return pl_error(PARLIN_ERROR_MEMORY, "parlin_loader_create: no host memory");
    }
    pl_checkpoint_retain(checkpoint);
    made->checkpoint = checkpoint;
    *loader = made;
    return PARLIN_SUCCESS;
}

void parlin_loader_destroy(parlin_loader *loader)
{
    if (loader == NULL)
        return;
    for (size_t i = 0; i < loader->count; ++i)
        free(loader->feeds[i].name);
    for (size_t i = 0; i < loader->ignored_count; ++i)
        free(loader->ignored[i]);
    free(loader->feeds);
    free(loader->ignored);
    free(loader->left_over);
    free(loader->named);
    parlin_checkpoint_close(loader->checkpoint);
    free(loader);
}

/* --- what feeds what --- */

static parlin_status no_memory(const char *call)
{
    return pl_error(PARLIN_ERROR_MEMORY, "%s: no host memory", call);
}

static bool covers(const feed *one, const parlin_layer *layer, parlin_param param, size_t part)
{
    return !one->forbidden && one->layer == layer && one->param == param && part >= one->first &&
           part - one->first < one->count;
}

static parlin_status refuse_twice(const parlin_loader *loader, const feed *next)
{
    for (size_t i = 0; i < loader->count; ++i)
        for (size_t part = next->first; part < next->first + next->count; ++part)
            if (covers(&loader->feeds[i], next->layer, next->param, part)) {
                char text[PL_PARAM_TEXT], old[PL_QUOTE], new[PL_QUOTE];
                pl_param_text(next->layer, next->param, part, 1, text);
                return pl_layer_error(&next->layer->spec, PARLIN_ERROR_ARGUMENT, "loader",
                                      "%s is fed twice, by '%s' and by '%s'", text,
                                      pl_quote(loader->feeds[i].name, old),
                                      pl_quote(next->name, new));
            }
    return PARLIN_SUCCESS;
}

/* Takes over next->name, in any case. */
static parlin_status append(parlin_loader *loader, feed next, const char *call)
{
    parlin_status status = PARLIN_SUCCESS;
    if (next.name == NULL)
        return no_memory(call);
    if (!next.forbidden)
        status = refuse_twice(loader, &next);
    if (status == PARLIN_SUCCESS && loader->count == loader->room) {
        size_t room = loader->room == 0 ? 64 : 2 * loader->room;
        feed *larger = realloc(loader->feeds, room * sizeof *larger);
        if (larger == NULL) {
            status = no_memory(call);
        } else {
            loader->feeds = larger;
            loader->room = room;
        }
    }
    if (status != PARLIN_SUCCESS) {
        free(next.name);
        return status;
    }
    next.index = pl_checkpoint_index(loader->checkpoint, next.name);
    loader->feeds[loader->count++] = next;
    loader->looked = false;
    return PARLIN_SUCCESS;
}

static parlin_status refuse_null(const char *call, const parlin_loader *loader,
                                 const parlin_layer *layer, const void *name, const char *what)
{
    if (loader != NULL && layer != NULL && name != NULL)
        return PARLIN_SUCCESS;
    return pl_error(PARLIN_ERROR_ARGUMENT, "%s: %s is NULL", call,
                    loader == NULL  ? "loader"
                    : layer == NULL ? "layer"
                                    : what);
}

parlin_status parlin_loader_add_tensor(parlin_loader *loader, parlin_layer *layer,
                                       parlin_param param, parlin_shard shard, const char *name,
                                       const parlin_layout *layout)
{
    static const char call[] = "parlin_loader_add_tensor";
    PL_TRY(refuse_null(call, loader, layer, name, "name"));
    feed next = {.layer = layer, .param = param, .shard = shard};
    PL_TRY(pl_param_find(layer, "loader", param, shard, &next.first, &next.count));
    if (layout != NULL)
        next.layout = *layout;
    if (next.layout.transposed && param == PARLIN_BIAS)
        return pl_layer_error(&layer->spec, PARLIN_ERROR_ARGUMENT, "loader",
                              "a bias cannot be transposed");
    next.name = pl_text("%s", name);
    return append(loader, next, call);
}

parlin_status parlin_loader_add(parlin_loader *loader, parlin_layer *layer, parlin_shard shard,
                                const char *prefix)
{
    static const char call[] = "parlin_loader_add";
    PL_TRY(refuse_null(call, loader, layer, prefix, "prefix"));
    feed weight = {.layer = layer, .param = PARLIN_WEIGHT, .shard = shard};
    PL_TRY(pl_param_find(layer, "loader", PARLIN_WEIGHT, shard, &weight.first, &weight.count));
    feed bias = weight;
    bias.param = PARLIN_BIAS;
    bias.forbidden = !layer->spec.common.bias;
    weight.name = pl_text("%s.weight", prefix);
    PL_TRY(append(loader, weight, call));
    bias.name = pl_text("%s.bias", prefix);
    parlin_status status = append(loader, bias, call);
    if (status != PARLIN_SUCCESS)
        free(loader->feeds[--loader->count].name); /* both or none */
    return status;
}

parlin_status parlin_loader_ignore(parlin_loader *loader, const char *prefix)
{
    static const char call[] = "parlin_loader_ignore";
    if (loader == NULL || prefix == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: %s is NULL", call,
                        loader == NULL ? "loader" : "prefix");
    char *text = pl_text("%s", prefix);
    char **larger = text == NULL ? NULL
                                 : realloc((void *)loader->ignored,
                                           (loader->ignored_count + 1) * sizeof *larger);
    if (larger == NULL) {
        free(text);
        return no_memory(call);
    }
    loader->ignored = larger;
    loader->ignored[loader->ignored_count++] = text;
    loader->looked = false;
    return PARLIN_SUCCESS;
}

/* --- what is left over --- */

static bool is_ignored(const parlin_loader *loader, const char *name)
{
    for (size_t i = 0; i < loader->ignored_count; ++i)
        if (strncmp(name, loader->ignored[i], strlen(loader->ignored[i])) == 0)
            return true;
    return false;
}

static const char *stored_name(const parlin_loader *loader, size_t index)
{
    return loader->checkpoint->entries[index].stored.name;
}

static void look(parlin_loader *loader)
{
    size_t count = parlin_checkpoint_count(loader->checkpoint);
    memset(loader->named, 0, count * sizeof *loader->named);
    for (size_t i = 0; i < loader->count; ++i)
        if (loader->feeds[i].index != SIZE_MAX)
            loader->named[loader->feeds[i].index] = true;
    loader->left_over_count = 0;
    for (size_t i = 0; i < count; ++i)
        if (!loader->named[i] && !is_ignored(loader, stored_name(loader, i)))
            loader->left_over[loader->left_over_count++] = i;
    loader->looked = true;
}

size_t parlin_loader_left_over_count(parlin_loader *loader)
{
    if (loader == NULL)
        return 0;
    if (!loader->looked)
        look(loader);
    return loader->left_over_count;
}

const char *parlin_loader_left_over(parlin_loader *loader, size_t index)
{
    return index < parlin_loader_left_over_count(loader)
               ? stored_name(loader, loader->left_over[index])
               : NULL;
}

/* --- checks of a run --- */

/* A list of names for a sentence: "'a', 'b' and 3 more". */
typedef struct names {
    size_t count;
    size_t used;
    char text[MOST_NAMES * (PL_QUOTE + PL_PARAM_TEXT + 64) + 32];
} names;

static void add_name(names *list, const char *name)
{
    if (list->count++ < MOST_NAMES && list->used < sizeof list->text)
        list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                       "%s%s", list->count > 1 ? ", " : "", name);
}

static const char *end_names(names *list)
{
    if (list->count > MOST_NAMES && list->used < sizeof list->text)
        snprintf(list->text + list->used, sizeof list->text - list->used, " and %zu more",
                 list->count - MOST_NAMES);
    return list->text;
}

static void add_quoted(names *list, const char *name)
{
    char quoted[PL_QUOTE], text[PL_QUOTE + 2];
    snprintf(text, sizeof text, "'%s'", pl_quote(name, quoted));
    add_name(list, text);
}

static parlin_status check_present(const parlin_loader *loader, names *missing, names *unowned)
{
    for (size_t i = 0; i < loader->count; ++i) {
        const feed *one = &loader->feeds[i];
        if (one->forbidden && one->index != SIZE_MAX)
            add_quoted(unowned, one->name);
        if (!one->forbidden && one->index == SIZE_MAX)
            add_quoted(missing, one->name);
    }
    const char *path = loader->checkpoint->path;
    if (missing->count > 0)
        return pl_error(PARLIN_ERROR_FILE, "parlin_loader_run: checkpoint %s has no tensor %s",
                        path, end_names(missing));
    if (unowned->count > 0)
        return pl_error(
            PARLIN_ERROR_FILE,
            "parlin_loader_run: checkpoint %s has %s, and the layer of that name has no "
            "bias",
            path, end_names(unowned));
    return PARLIN_SUCCESS;
}

/* The feed's tensor as the layer is to see it. */
static parlin_status host_of(const parlin_loader *loader, const feed *one, parlin_host *host)
{
    PL_TRY(pl_checkpoint_host(loader->checkpoint, one->index, host));
    if (one->layout.transposed)
        *host = parlin_host_transposed(*host);
    host->order = one->layout.order;
    return PARLIN_SUCCESS;
}

static parlin_status check_shapes(const parlin_loader *loader)
{
    for (size_t i = 0; i < loader->count; ++i) {
        const feed *one = &loader->feeds[i];
        if (one->forbidden)
            continue;
        parlin_host host;
        PL_TRY(host_of(loader, one, &host));
        char quoted[PL_QUOTE];
        parlin_status status = pl_load_check(one->layer, one->param, one->shard, &host);
        if (status != PARLIN_SUCCESS)
            return pl_error(status, "parlin_loader_run: checkpoint %s: tensor '%s'%s: %s",
                            loader->checkpoint->path, pl_quote(one->name, quoted),
                            one->layout.transposed ? ", transposed" : "", parlin_last_error());
    }
    return PARLIN_SUCCESS;
}

/* Parts of this layer's parameter that nothing feeds. A part that has values was meant to. */
static void add_unfed(const parlin_loader *loader, const parlin_layer *layer, parlin_param param,
                      names *unfed)
{
    for (size_t part = 0; part < layer->spec.parts; ++part) {
        bool fed = pl_slot_of(layer, param, part)->ready;
        for (size_t i = 0; i < loader->count && !fed; ++i)
            fed = covers(&loader->feeds[i], layer, param, part);
        if (fed)
            continue;
        char text[PL_PARAM_TEXT], name[PL_QUOTE], whole[PL_PARAM_TEXT + PL_QUOTE + 32];
        pl_param_text(layer, param, part, 1, text);
        snprintf(whole, sizeof whole, "%s of %s layer '%s'", text, pl_kind_name(layer->spec.kind),
                 pl_quote(layer->spec.common.name, name));
        add_name(unfed, whole);
    }
}

static parlin_status check_fed(const parlin_loader *loader, names *unfed)
{
    for (size_t i = 0; i < loader->count; ++i) {
        const parlin_layer *layer = loader->feeds[i].layer;
        bool seen = false;
        for (size_t j = 0; j < i && !seen; ++j)
            seen = loader->feeds[j].layer == layer;
        if (seen)
            continue;
        add_unfed(loader, layer, PARLIN_WEIGHT, unfed);
        if (layer->spec.common.bias)
            add_unfed(loader, layer, PARLIN_BIAS, unfed);
    }
    if (unfed->count == 0)
        return PARLIN_SUCCESS;
    return pl_error(PARLIN_ERROR_STATE, "parlin_loader_run: nothing feeds %s", end_names(unfed));
}

static parlin_status check_run(const parlin_loader *loader)
{
    names *lists = calloc(3, sizeof *lists);
    if (lists == NULL)
        return no_memory("parlin_loader_run");
    parlin_status status = check_present(loader, &lists[0], &lists[1]);
    if (status == PARLIN_SUCCESS)
        status = check_shapes(loader);
    if (status == PARLIN_SUCCESS)
        status = check_fed(loader, &lists[2]);
    free(lists);
    return status;
}

/* --- the run --- */

typedef struct run_state {
    const pl_map *map; /* of the tensor that is being loaded */
    parlin_progress progress;
    void *user;
    size_t done;
    size_t total;
} run_state;

/* Bytes of pages that a line may make resident, its own and mapped neighbours. */
static size_t most_mapped(size_t pitch, size_t width)
{
    size_t alone = width + 2 * PL_MAP_WINDOW;
    return pitch < alone ? pitch : alone;
}

static size_t most_lines(size_t pitch, size_t width)
{
    size_t lines = MOST_MAPPED / most_mapped(pitch, width);
    return lines > 0 ? lines : 1;
}

/* The bytes of a block that lie in the map, from the first to the last. */
static size_t span_of(const pl_lines *lines)
{
    return (lines->count - 1) * lines->pitch + lines->width;
}

static void before_block(void *user, const pl_lines *lines)
{
    const run_state *state = user;
    /* lines that share pages, or nearly, are asked for as one */
    if (lines->pitch - lines->width < 4096) {
        pl_map_will_need(state->map, lines->first, span_of(lines));
        return;
    }
    for (size_t i = 0; i < lines->count; ++i)
        pl_map_will_need(state->map, lines->first + i * lines->pitch, lines->width);
}

static void after_block(void *user, const pl_lines *lines)
{
    run_state *state = user;
    pl_map_give_back(state->map, lines->first, span_of(lines));
    state->done += lines->count * lines->width;
    if (state->progress != NULL && state->done < state->total)
        state->progress(state->user, state->done, state->total);
}

static size_t bytes_of(const parlin_loader *loader, const feed *one)
{
    size_t rows = 0;
    for (size_t part = one->first; part < one->first + one->count; ++part)
        rows += pl_slot_of(one->layer, one->param, part)->range.length;
    return rows * pl_param_cols(one->layer, one->param).length *
           loader->checkpoint->entries[one->index].stored.element_bytes;
}

static parlin_status load_all(const parlin_loader *loader, run_state *state)
{
    const pl_load_watch watch = {
        .user = state, .most_lines = most_lines, .before = before_block, .after = after_block};
    for (size_t i = 0; i < loader->count; ++i) {
        const feed *one = &loader->feeds[i];
        if (one->forbidden)
            continue;
        parlin_host host;
        PL_TRY(host_of(loader, one, &host));
        state->map = pl_checkpoint_map(loader->checkpoint, one->index);
        PL_TRY(pl_load(one->layer, one->param, one->shard, &host, &watch));
    }
    return PARLIN_SUCCESS;
}

parlin_status parlin_loader_run(parlin_loader *loader, parlin_progress progress, void *user)
{
    if (loader == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_loader_run: loader is NULL");
    PL_TRY(check_run(loader));
    run_state state = {.progress = progress, .user = user};
    for (size_t i = 0; i < loader->count; ++i)
        if (!loader->feeds[i].forbidden)
            state.total += bytes_of(loader, &loader->feeds[i]);
    if (progress != NULL)
        progress(user, 0, state.total);
    pl_checkpoint_read_ahead(loader->checkpoint, false);
    parlin_status status = load_all(loader, &state);
    pl_checkpoint_read_ahead(loader->checkpoint, true);
    if (status == PARLIN_SUCCESS && progress != NULL)
        progress(user, state.total, state.total);
    return status;
}
