package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// OpenInjections gives the injections that have fired and were neither reverted nor closed, in the order in which they
// fired: what a daemon that starts must undo first.
func (l *Ledger) OpenInjections(ctx context.Context) ([]fact.Injection, error) {
	var open []fact.Injection
	// The newest plan on record is the one that was armed: it has Undo.
	err := l.query(ctx, `SELECT ref, (SELECT json_extract(body, '$.plan') FROM fact p WHERE kind = '`+kindStep+`'
			AND p.ref = f.ref AND json_extract(body, '$.plan') IS NOT NULL ORDER BY seq DESC LIMIT 1)
		FROM fact f WHERE kind = '`+kindStep+`' AND json_extract(body, '$.step') = 'firing'
		AND NOT EXISTS (SELECT 1 FROM fact g WHERE g.kind = '`+kindStep+`' AND g.ref = f.ref AND g.seq > f.seq
			AND json_extract(g.body, '$.step') IN ('reverted', 'closed')) ORDER BY seq`,
		func(r *rows) error {
			var i fact.Injection
			if err := json.Unmarshal([]byte(r.string(1)), &i); err != nil {
				return fmt.Errorf("the plan of injection %d: %w: %w", r.int(0), errDamaged, err)
			}
			open = append(open, i)
			return nil
		})
	return open, err
}

// Unsettled gives the memories that were begun and never settled, in the order of their numbers. While no write is
// under way, these are writes that a death of the daemon cut off.
func (l *Ledger) Unsettled(ctx context.Context) ([]memory.ID, error) {
	var ids []memory.ID
	err := l.query(ctx, `SELECT id FROM memory m WHERE NOT EXISTS (SELECT 1 FROM settled s WHERE s.memory = m.id) ORDER BY id`,
		func(r *rows) error { ids = append(ids, memory.ID(r.int(0))); return nil })
	return ids, err
}

func (l *Ledger) query(ctx context.Context, query string, fn func(*rows) error) error {
	if err := l.reading(ctx, func(c *conn) error { return c.each(ctx, query, fn) }); err != nil {
		return l.wrap("reading", err)
	}
	return nil
}
