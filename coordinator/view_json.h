/* view_json.h - views as the JSON of design.md 4.5. */
#ifndef BERTH_COORDINATOR_VIEW_JSON_H
#define BERTH_COORDINATOR_VIEW_JSON_H

#include "common/json.h"
#include "coordinator/http.h"
#include "coordinator/snapshot.h"

void json_node(struct json_out *out, const struct node_view *node);
void json_account(struct json_out *out, const struct account_view *account);
/* Members of a key, without braces and without its secret. */
void json_key_members(struct json_out *out, const struct key_view *key);
void json_catalogue_entry(struct json_out *out, const struct model *model,
                          size_t nodes);
void json_member_instant(struct json_out *out, const char *name, bool known,
                         struct instant at);

/* {"object":"list","data":[ ... ],"next":null}: open, write items, close. */
void json_list_open(struct json_out *out);
void json_list_close(struct json_out *out, const char *next);

#endif
