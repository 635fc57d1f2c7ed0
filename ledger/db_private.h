/* db_private.h - what db.c and db_rows.c share. */
#ifndef BERTH_LEDGER_DB_PRIVATE_H
#define BERTH_LEDGER_DB_PRIVATE_H

#include <libpq-fe.h>

#include "ledger/db.h"

struct db_rows {
    PGresult *result;
};

#endif
