-- 0003_reprefill.sql: a re-prefill is paid out of the fee.
--
-- An attempt that goes on with an answer reads prompt and answer again.  It is
-- paid for that by a leg of its own, code 12, from the wallet to the node like
-- an earning; the fee leg is smaller by as much.  docs/ledger.md says how much.
-- What follows is as in 0001 but for the new code; view earned ends in code.

SET LOCAL search_path = ledger, pg_temp;

COMMENT ON TABLE transfer IS
    'Every movement of money, append-only; corrections are rows of their own. '
    'Codes: 1 grant, 10 job earning, 11 network fee, 12 re-prefill, '
    '20 maturity, 50 correction.';
COMMENT ON TABLE earning IS
    'One row per earning and re-prefill leg, written by the settling '
    'transaction.';

CREATE OR REPLACE FUNCTION leg_fits(code smallint, dr_kind smallint,
                                    cr_kind smallint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(CASE code
        WHEN 1 THEN dr_kind = 4 AND cr_kind = 1
        WHEN 10 THEN dr_kind = 1 AND cr_kind = 3
        WHEN 11 THEN dr_kind = 1 AND cr_kind = 5
        WHEN 12 THEN dr_kind = 1 AND cr_kind = 3
        WHEN 20 THEN dr_kind = 3 AND cr_kind = 2
        WHEN 50 THEN dr_kind IS NOT NULL AND cr_kind IS NOT NULL
        ELSE false END, false)
$$;

-- The legs of a job are summed over the whole table, not over the new rows
-- only: a second set of legs for a settled hold is refused too.
CREATE OR REPLACE FUNCTION on_transfer() RETURNS trigger
LANGUAGE plpgsql SET search_path = ledger, pg_temp AS $$
DECLARE
    accounts bigint;
    found_accounts bigint;
    bad uuid;
BEGIN
    WITH delta AS MATERIALIZED (
        SELECT account, sum(debit)::bigint AS debit,
               sum(credit)::bigint AS credit
        FROM (SELECT dr AS account, amount::bigint AS debit,
                     0::bigint AS credit FROM added
              UNION ALL SELECT cr, 0, amount FROM added) s
        GROUP BY account
    ), applied AS (
        UPDATE balance b SET debits = b.debits + d.debit,
                             credits = b.credits + d.credit
        FROM delta d WHERE b.account = d.account RETURNING 1
    )
    SELECT (SELECT count(*) FROM delta), (SELECT count(*) FROM applied)
        INTO accounts, found_accounts;
    IF accounts <> found_accounts THEN
        RAISE EXCEPTION 'unknown account' USING ERRCODE = '23503';
    END IF;

    SELECT n.grp INTO bad FROM added n
        LEFT JOIN account d ON d.id = n.dr LEFT JOIN account c ON c.id = n.cr
        WHERE NOT leg_fits(n.code, d.kind, c.kind) LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'a leg of % is between the wrong accounts', bad
            USING ERRCODE = '23514';
    END IF;

    SELECT g.grp INTO bad
        FROM (SELECT grp, bool_or(code IN (10, 11, 12)) AS of_job,
                     bool_and(code IN (10, 11, 12)) AS only_job
              FROM added GROUP BY grp) g
        LEFT JOIN hold h ON h.id = g.grp
        LEFT JOIN hold_end e ON e.hold = g.grp
        CROSS JOIN LATERAL (
            SELECT sum(t.amount) AS amount, min(t.dr) AS low, max(t.dr) AS high
            FROM transfer t WHERE t.grp = g.grp) s
        WHERE g.of_job <> (h.id IS NOT NULL) OR g.only_job <> g.of_job
           OR g.of_job AND (e.charged IS DISTINCT FROM s.amount
                            OR s.low <> h.payer OR s.high <> h.payer)
        LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'the legs of % do not make its charge', bad
            USING ERRCODE = '23514';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION settle(reign bigint, jobs uuid[], charges bigint[],
                       records bytea[], models text[],
                       leg_jobs uuid[], legs smallint[], codes smallint[],
                       crs bigint[], amounts bigint[], attempts integer[],
                       nodes uuid[], pods uuid[], weights numeric[],
                       prompt_tokens bigint[], completion_tokens bigint[])
RETURNS smallint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_temp AS $$
DECLARE
    answers smallint[];
    fresh uuid[];
    leg_count bigint;
    leg_jobs_count bigint;
    first bigint;
BEGIN
    PERFORM fence(reign);
    -- The ends come first: they free what was pending before it is debited.
    WITH made AS (
        INSERT INTO hold_end (hold, kind, charged, receipt)
        SELECT DISTINCT ON (i.job) i.job, 1, i.charge, sha256(i.record)
        FROM unnest(jobs, charges, records) WITH ORDINALITY
                 AS i (job, charge, record, place)
        JOIN hold h ON h.id = i.job
        ORDER BY i.job, i.place
        ON CONFLICT (hold) DO NOTHING RETURNING hold
    )
    SELECT coalesce(array_agg(hold), '{}') INTO fresh FROM made;

    IF cardinality(fresh) > 0 THEN
        SELECT count(*), count(DISTINCT f) INTO leg_count, leg_jobs_count
            FROM unnest(leg_jobs) l JOIN unnest(fresh) f ON f = l;
        IF leg_jobs_count <> cardinality(fresh) THEN
            RAISE EXCEPTION 'settled without legs' USING ERRCODE = '23514';
        END IF;
        first := take(reign, leg_count);
        INSERT INTO transfer (seq, grp, leg, code, dr, cr, amount)
            SELECT first + row_number() OVER (ORDER BY l.job, l.leg) - 1,
                   l.job, l.leg, l.code, h.payer, l.cr, l.amount
            FROM unnest(fresh) f
            JOIN unnest(leg_jobs, legs, codes, crs, amounts)
                     AS l (job, leg, code, cr, amount) ON l.job = f
            JOIN hold h ON h.id = f;
        INSERT INTO earning (grp, leg, attempt, node, pod, model, weight,
                             prompt_tokens, completion_tokens)
            SELECT l.job, l.leg, l.attempt, l.node, l.pod, m.model, l.weight,
                   l.prompt, l.completion
            FROM unnest(fresh) f
            JOIN unnest(leg_jobs, legs, codes, attempts, nodes, pods, weights,
                        prompt_tokens, completion_tokens)
                     AS l (job, leg, code, attempt, node, pod, weight, prompt,
                           completion) ON l.job = f AND l.code IN (10, 12)
            JOIN unnest(jobs, models) WITH ORDINALITY AS m (job, model, place)
                ON m.job = f AND m.place = (SELECT min(k.place)
                    FROM unnest(jobs) WITH ORDINALITY AS k (job, place)
                    WHERE k.job = f);
        INSERT INTO settlement (job, record, digest)
            SELECT DISTINCT ON (i.job) i.job, i.record, sha256(i.record)
            FROM unnest(jobs, records) WITH ORDINALITY AS i (job, record, place)
            JOIN unnest(fresh) f ON f = i.job
            ORDER BY i.job, i.place;
    END IF;

    SELECT array_agg((CASE
               WHEN e.hold IS NULL THEN 4
               WHEN e.kind <> 1 THEN 5
               WHEN e.charged <> i.charge OR e.receipt <> sha256(i.record)
                   THEN 2
               WHEN f IS NOT NULL AND i.turn = 1 THEN 0
               ELSE 1 END)::smallint ORDER BY i.place)
        INTO answers
        FROM (SELECT u.*, row_number() OVER (PARTITION BY job ORDER BY place)
                         AS turn
              FROM unnest(jobs, charges, records) WITH ORDINALITY
                       AS u (job, charge, record, place)) i
        LEFT JOIN hold_end e ON e.hold = i.job
        LEFT JOIN unnest(fresh) f ON f = i.job;
    RETURN answers;
END $$;

CREATE OR REPLACE VIEW earned AS
    SELECT e.grp, e.leg, e.attempt, e.node, e.pod, a.owner, e.model, t.at,
           (t.at AT TIME ZONE 'UTC')::date AS day, t.amount::bigint AS amount,
           e.prompt_tokens, e.completion_tokens, t.code
    FROM earning e
    JOIN transfer t ON t.grp = e.grp AND t.leg = e.leg
    JOIN account a ON a.id = t.cr;
COMMENT ON VIEW earned IS
    'Earning and re-prefill legs with owner, UTC day, microcredits and code, '
    'for earnings pages.';

CREATE OR REPLACE VIEW violation AS
    SELECT 'balance is not its transfers' AS what, b.account::text AS which
    FROM balance b
    LEFT JOIN (SELECT account, sum(debit) AS debit, sum(credit) AS credit
               FROM (SELECT dr AS account, amount::numeric AS debit,
                            0::numeric AS credit FROM transfer
                     UNION ALL SELECT cr, 0, amount FROM transfer) s
               GROUP BY account) t ON t.account = b.account
    WHERE b.debits <> coalesce(t.debit, 0) OR b.credits <> coalesce(t.credit, 0)
UNION ALL
    SELECT 'pending is not its open holds', b.account::text
    FROM balance b
    LEFT JOIN (SELECT h.payer, sum(h.amount::numeric) AS amount FROM hold h
               WHERE NOT EXISTS (SELECT FROM hold_end e WHERE e.hold = h.id)
               GROUP BY h.payer) p ON p.payer = b.account
    WHERE b.pending <> coalesce(p.amount, 0)
UNION ALL
    SELECT 'debits are not credits', '' FROM balance
    HAVING sum(debits::numeric) <> sum(credits::numeric)
UNION ALL
    SELECT 'account and balance differ', coalesce(a.id, b.account)::text
    FROM account a FULL JOIN balance b ON b.account = a.id
    WHERE a.id IS NULL OR b.account IS NULL
       OR a.floor_zero <> b.floor_zero
UNION ALL
    SELECT 'account below zero', b.account::text FROM balance b
    WHERE b.floor_zero AND b.credits - b.debits - b.pending < 0
UNION ALL
    SELECT 'leg between the wrong accounts', t.grp || '/' || t.leg
    FROM transfer t
    LEFT JOIN account d ON d.id = t.dr LEFT JOIN account c ON c.id = t.cr
    WHERE NOT leg_fits(t.code, d.kind, c.kind)
UNION ALL
    SELECT 'hold of no wallet', h.id::text
    FROM hold h LEFT JOIN account a ON a.id = h.payer
    WHERE a.kind IS DISTINCT FROM 1
UNION ALL
    SELECT 'end of no hold, or above it', e.hold::text
    FROM hold_end e LEFT JOIN hold h ON h.id = e.hold
    WHERE h.id IS NULL OR e.charged > h.amount
UNION ALL
    SELECT 'legs are not the charge', coalesce(e.hold, t.grp)::text
    FROM (SELECT hold, charged FROM hold_end WHERE kind = 1) e
    FULL JOIN (SELECT grp, sum(amount::numeric) AS amount FROM transfer t
               WHERE code IN (10, 11, 12)
                  OR EXISTS (SELECT FROM hold h WHERE h.id = t.grp)
               GROUP BY grp) t ON t.grp = e.hold
    WHERE e.charged IS DISTINCT FROM t.amount
UNION ALL
    SELECT 'leg not paid by the payer', t.grp || '/' || t.leg
    FROM transfer t JOIN hold h ON h.id = t.grp WHERE t.dr <> h.payer
UNION ALL
    SELECT 'earning is not its leg',
           coalesce(t.grp, e.grp) || '/' || coalesce(t.leg, e.leg)
    FROM (SELECT t.grp, t.leg, a.node FROM transfer t
          LEFT JOIN account a ON a.id = t.cr WHERE t.code IN (10, 12)) t
    FULL JOIN earning e ON e.grp = t.grp AND e.leg = t.leg
    WHERE e.node IS DISTINCT FROM t.node
       OR (e.grp IS NULL) <> (t.grp IS NULL)
UNION ALL
    SELECT 'settlement is not its receipt', coalesce(e.hold, s.job)::text
    FROM (SELECT hold, receipt FROM hold_end WHERE kind = 1) e
    FULL JOIN settlement s ON s.job = e.hold
    WHERE e.receipt IS DISTINCT FROM sha256(s.record)
       OR s.digest IS DISTINCT FROM e.receipt
UNION ALL
    SELECT 'gap in seq', '' FROM transfer
    HAVING count(*) <> coalesce(max(seq), 0)
UNION ALL
    SELECT 'head is not behind the last transfer', '' FROM head
    WHERE next_seq <> 1 + coalesce((SELECT max(seq) FROM transfer), 0);
