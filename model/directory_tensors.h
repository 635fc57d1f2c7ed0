/* directory_tensors.h - are the tensors of a directory those that its
 * config.json implies? For model/directory.c. */
#ifndef BERTH_MODEL_DIRECTORY_TENSORS_H
#define BERTH_MODEL_DIRECTORY_TENSORS_H

#include "model/directory.h"

/* The first that is not is named. */
MUST_CHECK enum status
directory_check_tensors(const struct model_directory *dir,
                        const struct json *config, struct error *err);

#endif
