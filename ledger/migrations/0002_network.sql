-- 0002_network.sql: people, keys, nodes, models, jobs and their attempts.
--
-- Money is in schema ledger; a row here never says what anybody owns.

CREATE TABLE berth.account (
    id      bigint      PRIMARY KEY CHECK (id > 0),
    name    text        NOT NULL UNIQUE
                        CHECK (octet_length(name) BETWEEN 1 AND 100),
    created timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE berth.account IS
    'A person or organisation: owner, submitter, operator or all three.';

CREATE TABLE berth.api_key (
    id      uuid        PRIMARY KEY,
    account bigint      NOT NULL REFERENCES berth.account,
    digest  bytea       NOT NULL UNIQUE CHECK (octet_length(digest) = 32),
    prefix  text        NOT NULL CHECK (octet_length(prefix) BETWEEN 1 AND 24),
    name    text        NOT NULL CHECK (octet_length(name) <= 100),
    scopes  integer     NOT NULL CHECK (scopes BETWEEN 1 AND 7),
    created timestamptz NOT NULL DEFAULT now(),
    expires timestamptz,
    revoked timestamptz
);
COMMENT ON TABLE berth.api_key IS
    'API keys; the secret itself is never stored.';
COMMENT ON COLUMN berth.api_key.digest IS 'SHA-256 of the whole secret.';
COMMENT ON COLUMN berth.api_key.scopes IS
    'Bits: 1 submitter, 2 owner, 4 operator.';

CREATE TABLE berth.node (
    id        uuid        PRIMARY KEY,
    owner     bigint      NOT NULL REFERENCES berth.account,
    name      text        NOT NULL UNIQUE
                          CHECK (octet_length(name) BETWEEN 1 AND 100),
    pools     text[]      NOT NULL DEFAULT '{public}',
    simulated boolean     NOT NULL DEFAULT false,
    draining  boolean     NOT NULL DEFAULT false,
    joined    timestamptz NOT NULL DEFAULT now(),
    last_seen timestamptz,
    removed   timestamptz
);
COMMENT ON TABLE berth.node IS
    'Lent machines. A removed node keeps its row: earnings refer to it.';

CREATE TABLE berth.join_token (
    id      uuid        PRIMARY KEY,
    secret  bytea       NOT NULL CHECK (octet_length(secret) = 32),
    owner   bigint      NOT NULL REFERENCES berth.account,
    name    text        CHECK (octet_length(name) BETWEEN 1 AND 100),
    pools   text[]      NOT NULL DEFAULT '{public}',
    created timestamptz NOT NULL DEFAULT now(),
    expires timestamptz NOT NULL CHECK (expires > created),
    used    timestamptz,
    node    uuid        REFERENCES berth.node,
    CHECK ((used IS NULL) = (node IS NULL))
);
COMMENT ON COLUMN berth.join_token.secret IS 'SHA-256 of the secret part.';

CREATE TABLE berth.model (
    id      text        NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 127),
    digest  text        NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    entry   jsonb       NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    removed timestamptz,
    PRIMARY KEY (id, digest)
);
CREATE UNIQUE INDEX model_in_use ON berth.model (id) WHERE removed IS NULL;
COMMENT ON TABLE berth.model IS
    'Catalogue entries, computed from the headers of the model files.';

CREATE TABLE berth.model_file (
    model  text  NOT NULL,
    digest text  NOT NULL,
    name   text  NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 64),
    body   bytea NOT NULL,
    PRIMARY KEY (model, digest, name),
    FOREIGN KEY (model, digest) REFERENCES berth.model
);
COMMENT ON TABLE berth.model_file IS
    'Tokenizer, template and configuration files; never weights.';

CREATE TABLE berth.job (
    id                uuid        PRIMARY KEY,
    account           bigint      NOT NULL REFERENCES berth.account,
    api_key           uuid        NOT NULL REFERENCES berth.api_key,
    kind              text        NOT NULL
                                  CHECK (kind IN ('chat', 'completion')),
    model             text        NOT NULL,
    state             text        NOT NULL CHECK (state IN ('queued', 'running',
                          'done', 'failed', 'cancelled', 'quarantined')),
    outlives          boolean     NOT NULL,
    idempotency_key   text        CHECK (octet_length(idempotency_key)
                                         BETWEEN 1 AND 255),
    created           timestamptz NOT NULL DEFAULT now(),
    started           timestamptz,
    ended             timestamptz,
    content_day       date,
    request           bytea,
    result            bytea,
    prompt_tokens     bigint      NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens bigint      NOT NULL DEFAULT 0
                                  CHECK (completion_tokens >= 0),
    finish            text,
    error_status      text,
    error_code        text,
    error_text        text,
    hold_ucr          bigint      NOT NULL CHECK (hold_ucr > 0),
    price_revision    integer     NOT NULL,
    price_ucr         bigint      CHECK (price_ucr >= 0),
    prefill_ucr       bigint      CHECK (prefill_ucr >= 0),
    decode_ucr        bigint      CHECK (decode_ucr >= 0),
    fee_ucr           bigint      CHECK (fee_ucr >= 0),
    UNIQUE (account, idempotency_key),
    CHECK ((ended IS NULL) = (state IN ('queued', 'running')))
);
CREATE INDEX job_by_account ON berth.job (account, id DESC);
CREATE INDEX job_live ON berth.job (id) WHERE ended IS NULL;
CREATE INDEX job_content ON berth.job (content_day)
    WHERE content_day IS NOT NULL;
COMMENT ON TABLE berth.job IS 'One row a job; ids are UUIDv7, so id orders.';
COMMENT ON COLUMN berth.job.outlives IS
    'Made by /api/v1/jobs: goes on without its connection.';
COMMENT ON COLUMN berth.job.request IS
    'AES-256-GCM under the day key of content_day; null after retention.';
COMMENT ON COLUMN berth.job.result IS
    'AES-256-GCM under the day key of content_day; null after retention.';
COMMENT ON COLUMN berth.job.hold_ucr IS 'Microcredits.';
COMMENT ON COLUMN berth.job.price_ucr IS
    'Microcredits; shown here, decided by the ledger.';
COMMENT ON COLUMN berth.job.prefill_ucr IS 'Microcredits.';
COMMENT ON COLUMN berth.job.decode_ucr IS 'Microcredits.';
COMMENT ON COLUMN berth.job.fee_ucr IS 'Microcredits, part of the price.';

CREATE TABLE berth.attempt (
    job               uuid        NOT NULL REFERENCES berth.job,
    number            integer     NOT NULL CHECK (number > 0),
    epoch             bigint      NOT NULL,
    node              uuid        NOT NULL REFERENCES berth.node,
    why               jsonb       NOT NULL,
    predicted_ttft_ms double precision,
    predicted_tok_s   double precision,
    started           timestamptz NOT NULL DEFAULT now(),
    ended             timestamptz,
    end_reason        text,
    ids               bigint      NOT NULL DEFAULT 0 CHECK (ids >= 0),
    observed_ttft_ms  double precision,
    observed_tok_s    double precision,
    PRIMARY KEY (job, number),
    CHECK ((ended IS NULL) = (end_reason IS NULL))
);
COMMENT ON TABLE berth.attempt IS
    'Committed before anything is sent to the node; older numbers are fenced.';
COMMENT ON COLUMN berth.attempt.predicted_ttft_ms IS
    'Milliseconds from dispatch to the first id.';
COMMENT ON COLUMN berth.attempt.predicted_tok_s IS 'Ids per second.';
COMMENT ON COLUMN berth.attempt.observed_ttft_ms IS 'Milliseconds.';
COMMENT ON COLUMN berth.attempt.observed_tok_s IS 'Ids per second.';
